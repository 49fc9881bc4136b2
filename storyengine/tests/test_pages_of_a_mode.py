"""Tests of what a mode adds to the tabs: fields of its own, thoughts, speakers, and the
characters to whom a prompt can be sent."""

from dataclasses import replace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import AsyncClient, Client
from pytest_django import Settings

from agents.calling.tests.exploring import says
from agents.flows.tests.playing import replies_are_over
from agents.llm.providers.failures.call_errors import ProviderTimeout
from agents.llm.providers.scripted import ScriptedProvider
from agents.modes.declaration import Stage
from agents.modes.fields import setup_of
from agents.modes.registry import begin_chapter
from agents.tests.second_mode import VOYAGER, install
from sessions.chapter.access import get_chapter
from sessions.models import FIRST_NUMBER_IN_PLAY, Session, State, Tab1Inputs, Turn
from sessions.tests.factories import make_active_chapter
from storyengine.api.tests.calling import address as api_address
from storyengine.api.tests.calling import call
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import Element, all_of, by_id, get_page, read
from storyengine.tests.lighthouse.setup import Lamp, Tower
from storyengine.tests.playing_the_lighthouse import chapter as chapter
from storyengine.tests.playing_the_lighthouse import htmx as htmx
from storyengine.tests.playing_the_lighthouse import lighthouse as lighthouse
from storyengine.tests.playing_the_lighthouse import played
from storyengine.tests.playing_the_lighthouse import scripted as scripted
from testing.refusals import NOTHING_CHANGED

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("scripted")]


@pytest.fixture
def fresh() -> Session:
    """Return a chapter whose Tab 1 is still open."""
    return begin_chapter(mode="lighthouse")


def entries(html: str) -> list[Element]:
    return all_of(html, "p", "entry")


class TestCells:
    def test_they_stand_among_those_of_tab_1_with_their_values(
        self, client: Client, fresh: Session
    ) -> None:
        html = get_page(client, fresh, "world")
        oil = by_id(html, "setup-oil")
        assert oil.attributes["value"] == "5"
        assert oil.attributes["name"] == oil.attributes["hx-params"] == "setup.oil"
        assert oil.attributes["hx-post"] == address(fresh, "save-world")
        assert "data-autosave" in oil.attributes
        assert [one.attributes["id"] for one in oil.parents if one.tag == "form"] == ["setup"]
        assert by_id(html, "setup-rules").attributes["data-limit"] == "200"
        assert by_id(html, "lamp-0").attributes["hx-params"] == "setup.lamps.0.is_red"

    def test_one_is_saved_and_the_others_stay(self, htmx: Client, fresh: Session) -> None:
        for name, text in (
            ("setup.oil", "7"),
            ("setup.rules", "No guests.\r\nNo fire."),
            ("setup.lamps.0.is_red", "true"),
        ):
            answer = htmx.post(address(fresh, "save-world"), {name: text})
            assert answer.status_code == 204, answer.content
        expected = Tower(rules="No guests.\nNo fire.", oil=7, lamps=[Lamp(is_red=True)])
        assert setup_of(get_chapter(fresh.pk)) == expected
        html = get_page(htmx, fresh, "world")
        assert by_id(html, "setup-rules").text == "\nNo guests.\nNo fire."

    def test_without_scripts_all_cells_are_saved_at_once_or_none(
        self, client: Client, fresh: Session
    ) -> None:
        fields = {"world_text": "A rock.", "setup.oil": "9", "setup.rules": "None."}
        answer = client.post(address(fresh, "save-world"), fields)
        assert answer["Location"] == address(fresh, "world")
        answer = client.post(
            address(fresh, "save-world"), fields | {"world_text": "A sea.", "setup.oil": "21"}
        )
        assert answer.status_code == 422
        tab1 = get_chapter(fresh.pk).tab1
        assert (tab1.world_text, tab1.mode_setup["oil"]) == ("A rock.", 9)

    @pytest.mark.parametrize(
        ("name", "text", "said"),
        [
            ("setup.oil", "21", "oil: must be at most 20."),
            ("setup.oil", "much", "oil: must be a whole number."),
            ("setup.rules", "a" * 201, "rules: is longer than 200 characters."),
            ("setup.lamps.0.name", "", "lamps[0].name: must not be empty."),
            ("setup.lamps", "north", "lamps: must be a list."),
            ("setup.rules", "a\0b", NOTHING_CHANGED),
            ("setup.lamps.1.name", "south", "lamps.1.name: there is no such field."),
            ("setup.lamps.-1.name", "south", "lamps.-1.name: there is no such field."),
            (f"setup.lamps.{'9' * 400}.name", "south", "there is no such field."),
            ("setup.lamps.0.name.x", "south", "there is no such field."),
            ("setup.tide", "high", "tide: there is no such field."),
            ("setup.", "high", "there is no such field."),
            ("setup.a.b.c", "high", "a.b.c: there is no such field."),
        ],
    )
    def test_a_bad_one_is_refused_beside_its_cell(
        self, htmx: Client, fresh: Session, name: str, text: str, said: str
    ) -> None:
        answer = htmx.post(address(fresh, "save-world"), {name: text})
        assert answer.status_code == 422
        assert said in answer.content.decode()
        assert answer["HX-Retarget"].startswith("find .refusal, next .refusal")
        assert Tab1Inputs.objects.get(session=fresh).mode_setup == {}

    def test_after_the_first_prompt_they_are_shown_and_take_no_change(
        self, htmx: Client, fresh: Session, provider: ScriptedProvider
    ) -> None:
        htmx.post(address(fresh, "save-world"), {"setup.oil": "7"})
        provider.enqueue("I climb.")
        played(fresh)
        for text in ("8", "much"):
            answer = htmx.post(address(fresh, "save-world"), {"setup.oil": text})
            assert answer.status_code == 423
        html = get_page(htmx, fresh, "world")
        oil = by_id(html, "setup-oil")
        assert (oil.attributes["value"], "readonly" in oil.attributes) == ("7", True)
        assert "disabled" in by_id(html, "lamp-0").attributes
        assert not {"hx-post", "data-autosave"} & set(oil.attributes)

    def test_what_does_not_fit_the_model_any_more_is_shown_with_what_is_wrong(
        self, client: Client, fresh: Session
    ) -> None:
        Tab1Inputs.objects.filter(session=fresh).update(mode_setup={"oil": 99, "rules": "None."})
        html = get_page(client, fresh, "world")
        assert "Some of what was set up does not fit this way to play any more." in html
        assert "oil: must be at most 20" in html
        assert by_id(html, "setup-oil").attributes["value"] == "99"
        client.post(address(fresh, "save-world"), {"setup.oil": "19"})
        assert setup_of(get_chapter(fresh.pk)) == Tower(oil=19, rules="None.")

    def test_a_mode_without_them_shows_none_and_takes_none(self, client: Client) -> None:
        chapter = begin_chapter()
        assert 'name="setup.' not in get_page(client, chapter, "world")
        answer = client.post(address(chapter, "save-world"), {"setup.oil": "7"})
        assert answer.status_code == 422
        assert get_chapter(chapter.pk).tab1.mode_setup == {}


class TestThoughts:
    @pytest.fixture(autouse=True)
    def _thought(self, chapter: Session, provider: ScriptedProvider) -> None:
        provider.enqueue("I climb.\n\n*thinks* He lies.", "*thinks* I wait.")
        played(chapter)
        played(chapter, 2, "")

    def test_they_are_shown_only_when_they_are_asked_for(
        self, htmx: Client, chapter: Session
    ) -> None:
        html = get_page(htmx, chapter, "play")
        assert by_id(html, "thoughts").attributes["aria-pressed"] == "false"
        assert [one.text for one in entries(html)] == [
            "1) Go on.",
            f"{name(chapter, 1)}: I climb.",
            # The only event of this turn is a thought, so nothing follows the turn's number.
            "2)",
        ]
        count = all_of(html, "p", "fraction")[0].text
        html = htmx.post(
            address(chapter, "show-thoughts"), {"thoughts": "1", "shape": "playing"}
        ).content.decode()
        assert by_id(html, "thoughts").attributes["aria-pressed"] == "true"
        thoughts = all_of(html, "p", "thought")
        assert [one.text for one in thoughts] == [
            f"{name(chapter, 1)}: He lies.",
            f"{name(chapter, 2)}: I wait.",
        ]
        marks = all_of(html, "span", "thought-mark")
        assert {one.attributes["aria-label"] for one in marks} == {"Thought."}
        # Neither the count of characters nor the downloaded transcript includes thoughts.
        assert all_of(html, "p", "fraction")[0].text == count
        assert not all_of(html, "span", "perceived")
        text = htmx.get(address(chapter, "download-transcript")).content.decode()
        assert "I climb." in text
        assert "He lies." not in text

    def test_the_whole_transcript_follows_the_switch(
        self, client: Client, chapter: Session
    ) -> None:
        assert "He lies." not in get_page(client, chapter, "transcript")
        client.post(address(chapter, "show-thoughts"), {"thoughts": "1"})
        assert "He lies." in get_page(client, chapter, "transcript")
        client.post(address(chapter, "show-thoughts"), {"thoughts": "0"})
        assert "He lies." not in get_page(client, chapter, "transcript")

    def test_those_of_other_attempts_take_both_switches(
        self, client: Client, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("I row.")
        assert call("POST", api_address(chapter, "reroll"), {}).status_code == 201
        seen = {}
        for switch in ({"shows_thoughts": True}, {"shows_all_replies": True}):
            Session.objects.filter(pk=chapter.pk).update(**switch)
            seen[next(iter(switch))] = "I wait." in get_page(client, chapter, "play")
        assert seen == {"shows_thoughts": False, "shows_all_replies": True}
        Session.objects.filter(pk=chapter.pk).update(shows_thoughts=False)
        assert "I wait." not in get_page(client, chapter, "play")

    def test_where_nobody_has_thought_there_is_no_switch(self, client: Client) -> None:
        other = make_active_chapter(mode="lighthouse")
        assert address(other, "show-thoughts") not in get_page(client, other, "play")


class TestSpeakers:
    def test_each_event_has_its_speaker_s_name_and_a_turn_without_words_no_number(
        self, client: Client, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(
            says("native", "I call.", ("hail", {"name": "Ann <b>"})),
            "*says:1* Who is it?\n\n*sea* A wave.",
        )
        played(chapter, 2, "")
        provider.enqueue(f"*says:{FIRST_NUMBER_IN_PLAY}* At last.")
        played(chapter, 2, "")
        html = get_page(client, chapter, "play")
        assert [one.text for one in entries(html)] == [
            f"{name(chapter, 2)}: I call.",
            f"{name(chapter, 1)}: Who is it?",
            "A wave.",
            "Ann <b>: At last.",
        ]
        assert by_id(html, "prompt-1").text == f"{name(chapter, 2)}: I call."


def name(chapter: Session, slot: int) -> str:
    return chapter.character(slot).name


class TestWhoIsAsked:
    def test_characters_and_a_narrator_are_offered_where_both_answer(
        self, client: Client, chapter: Session, provider: ScriptedProvider
    ) -> None:
        html = get_page(client, chapter, "play")
        offered = all_of(html, "input", name="agent_slot")
        assert [one.attributes["value"] for one in offered] == ["1", "2", ""]
        assert [one.attributes["value"] for one in offered if "checked" in one.attributes] == ["1"]
        assert offered[-1].attributes["data-name"] == "Narrator of what is seen"

    def test_where_no_character_answers_the_prompt_is_nobody_s(
        self, client: Client, monkeypatch: pytest.MonkeyPatch, settings: Settings
    ) -> None:
        install(monkeypatch, settings, voyager=VOYAGER)
        chapter = begin_chapter(mode="voyager")
        html = get_page(client, chapter, "play")
        [offered] = all_of(html, "input", name="agent_slot")
        assert (offered.attributes["type"], offered.attributes["value"]) == ("hidden", "")
        assert by_id(html, "prompt-text").attributes["placeholder"] == "What do you do?"
        fields = {"agent_slot": "", "user_text": "I look."}
        answer = client.post(address(chapter, "next-call"), fields)
        assert "Narrator of what is seen" in answer.content.decode()

    def test_the_game_master_s_characters_are_all_offered_and_nobody_else(
        self, client: Client
    ) -> None:
        chapter = make_active_chapter(selected_agent_slots=(1, 2, 3))
        offered = all_of(get_page(client, chapter, "play"), "input", name="agent_slot")
        assert [one.attributes["value"] for one in offered] == ["1", "2", "3"]


STAGES = [
    frozenset({Stage.PLAY}),
    frozenset({Stage.SET_UP, Stage.PLAY}),
    frozenset({Stage.LOCK, Stage.PLAY}),
    frozenset({Stage.SET_UP, Stage.PLAY, Stage.MEMORY}),
    frozenset({Stage.SET_UP, Stage.PLAY, Stage.NARRATION}),
    frozenset({Stage.SET_UP, Stage.LOCK, Stage.PLAY, Stage.NARRATION}),
    frozenset(Stage),
]
# Pages whose address has no parameter except the chapter.
PAGES = ("world", "play", "draft", "transcript", "usage", "confirm-end", "chapter-models")


class TestStages:
    """Tests that every page of a chapter answers and that every button on the page works, whatever
    stages the chapter's mode has."""

    @pytest.fixture(params=STAGES, ids=lambda stages: "-".join(sorted(stages)))
    def stages(
        self, request: Any, monkeypatch: pytest.MonkeyPatch, settings: Settings
    ) -> frozenset[Stage]:
        install(monkeypatch, settings, voyager=replace(VOYAGER, stages=request.param))
        return frozenset(request.param)

    @pytest.mark.parametrize("state", ["begun", "played", "ended"])
    def test_no_button_is_refused(
        self,
        client: Client,
        provider: ScriptedProvider,
        stages: frozenset[Stage],
        state: str,
    ) -> None:
        chapter = begin_chapter(mode="voyager")
        Tab1Inputs.objects.filter(session=chapter).update(world_text="A sea.", chapter_text="Fog.")
        if state != "begun":
            Session.objects.filter(pk=chapter.pk).update(
                state=State.ACTIVE, tab1_locked=Stage.LOCK in stages
            )
            provider.enqueue("Masts, and gulls.")
            played(chapter, None)
        if state == "ended":
            Session.objects.filter(pk=chapter.pk).update(state=State.ENDED)
        provider.fallback = lambda request: "Masts."
        opened = client.get(address(chapter, "chapter"))["Location"]
        assert client.get(opened).status_code == 200
        for page in PAGES:
            answer = client.get(address(chapter, page))
            # While the chapter cannot be ended, the page that asks about the end redirects.
            assert answer.status_code in (200, 302), page
            html = answer.content.decode()
            tabs = [
                one.words for one in all_of(html, "a") if one.attributes.get("aria-label") != ""
            ]
            if answer.status_code == 200:
                assert ("1 World" in tabs) == (Stage.SET_UP in stages), page
                told = bool({Stage.MEMORY, Stage.NARRATION} & stages)
                assert ("3 Chapter" in tabs) == told, page
                self.press_all(client, html, page)

    def press_all(self, client: Client, html: str, page: str) -> None:
        """Send each form of the page with the fields that it has. Undo the effects of each form."""
        elements = read(html)
        for form in elements:
            if form.tag != "form" or form.attributes.get("method") != "post":
                continue
            inside = [one for one in elements if form in one.parents]
            buttons = [one for one in inside if one.tag == "button"]
            if not buttons or "disabled" in buttons[0].attributes:
                continue
            fields = {
                one.attributes["name"]: _value(one, inside)
                for one in inside
                if one.attributes.get("name")
                and ("checked" in one.attributes or one.attributes.get("type") != "radio")
            }
            action = form.attributes["action"]
            if action.endswith("/end") and not Turn.objects.exists():
                # No mode can end a chapter that has no prompt.
                continue
            if action.endswith(("/play/prompt", "/play/reroll")):
                # A dry run makes the same checks as a prompt, and calls no model.
                action = action.rpartition("/play/")[0] + "/calls/next"
                fields = {"agent_slot": fields.get("agent_slot", ""), "user_text": "I look."}
            with transaction.atomic():
                answer = client.post(action, fields)
                transaction.set_rollback(True)
            called = (page, action, answer.status_code)
            assert answer.status_code in (200, 302), (called, answer.content.decode()[-900:])


def _value(field: Element, inside: list[Element]) -> str:
    if field.tag == "select":
        options = [one for one in inside if field in one.parents]
        return next(one.attributes["value"] for one in options if "selected" in one.attributes)
    return field.attributes.get("value", "") or field.text.strip()


def test_words_that_nobody_perceives_are_sent_again_to_nobody(
    htmx: Client, chapter: Session, provider: ScriptedProvider
) -> None:
    """The narrator answers no member of the cast, so that a prompt may have no witness at all."""
    provider.enqueue(ProviderTimeout("slow"), "The sea.")
    sent = {"agent_slot": "", "user_text": "A secret.", "witnesses_of": "2", "submission_key": "k"}
    for _ in range(2):
        send(chapter, sent)
        html = get_page(htmx, chapter, "play")
        sent |= {
            one.attributes["name"]: one.attributes["value"]
            for one in all_of(html, "input", type="hidden")
            if any(it.attributes.get("id") == "broken" for it in one.parents)
        }
    assert [event.witnesses for event in chapter.events.all()] == [[], []]


def send(chapter: Session, sent: dict[str, str]) -> None:
    async def run() -> None:
        await AsyncClient().post(address(chapter, "prompt"), sent)
        await replies_are_over()

    async_to_sync(run)()
