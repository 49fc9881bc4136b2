"""Tests of a mode's panel on Tab 2: the world, acts, and the data that a prompt has besides
its words."""

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client

from agents.calling.tests.exploring import says
from agents.flows.tests.playing import replies_are_over
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from sessions.models import Session
from storyengine.api.tests.calling import address as api_address
from storyengine.api.tests.calling import call
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of, by_id, get_page
from storyengine.tests.playing_the_lighthouse import chapter as chapter
from storyengine.tests.playing_the_lighthouse import htmx as htmx
from storyengine.tests.playing_the_lighthouse import lighthouse as lighthouse
from storyengine.tests.playing_the_lighthouse import played
from storyengine.tests.playing_the_lighthouse import scripted as scripted
from storyengine.tests.url_map import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("scripted")]


def test_a_late_result_that_the_world_cannot_take_is_told_of_until_the_turn_after(
    client: Client, chapter: Session, provider: ScriptedProvider
) -> None:
    played(chapter, None, "")
    done = {"status": Job.Status.DONE, "result": {"depth": 3}}
    assert chapter.jobs.filter(attempt__isnull=False).update(**done) == 1
    said = (
        "What was worked out after prompt 1 could not be used, and play goes on without it: The "
        "way to play cannot take it into its world (KeyError)."
    )
    for is_told in (False, True, False):
        assert (said in get_page(client, chapter, "play")) == is_told
        played(chapter, 1, "Go on.")
    [job] = [
        one
        for one in call("GET", api_address(chapter)).json()["jobs"]
        if one["kind"] == "lighthouse.tide"
    ]
    assert (job["status"], job["error"]) == ("void", said.partition(": ")[2])


class TestPanel:
    @pytest.fixture(autouse=True)
    def _begun(self, chapter: Session, provider: ScriptedProvider) -> None:
        provider.enqueue("I climb.")
        played(chapter)

    def fields(self, chapter: Session, client: Client, **typed: str) -> dict[str, str]:
        """Return the fields that the form in the panel sends. `typed` gives the arguments that the
        user types."""
        html = get_page(client, chapter, "play")
        sent = {
            one.attributes["name"]: one.attributes["value"]
            for one in all_of(html, "input")
            if any(form.attributes.get("action") == address(chapter, "act") for form in one.parents)
            and one.attributes["name"] != "csrfmiddlewaretoken"
        }
        assert sent == {"shape": "playing", "act": "refuel", "arguments.litres": "1"}
        return sent | {f"arguments.{name}": text for name, text in typed.items()}

    def test_it_shows_the_world(self, client: Client, chapter: Session) -> None:
        panel = by_id(get_page(client, chapter, "play"), "mode-panel")
        assert (panel.tag, panel.attributes["aria-label"]) == ("aside", "Lighthouse")
        assert "Oil: 5 litres. Lamps that burn: none." in panel.words

    def test_an_act_changes_it_in_the_same_answer(self, htmx: Client, chapter: Session) -> None:
        answer = htmx.post(address(chapter, "act"), self.fields(chapter, htmx, litres="10"))
        html = answer.content.decode()
        assert answer.status_code == 200, html
        assert by_id(html, "oil").text == "15"
        assert by_id(html, "mode-panel").attributes["hx-swap-oob"] == "true"
        assert by_id(html, "play-upper").tag == "div"
        [change] = chapter.changes.all()
        assert (change.payload, change.cause) == ({"litres": 10}, "refuel")

    def test_without_scripts_it_leads_back_to_the_page(
        self, client: Client, chapter: Session
    ) -> None:
        answer = client.post(address(chapter, "act"), self.fields(chapter, client, litres="2"))
        assert answer["Location"] == address(chapter, "play")
        assert by_id(get_page(client, chapter, "play"), "oil").text == "7"

    @pytest.mark.parametrize(
        ("fields", "status", "said"),
        [
            ({"arguments.litres": "99"}, 422, "The tank holds 20 litres. Nothing was changed."),
            ({"arguments.litres": "much"}, 422, "The act refuel was not done"),
            ({"arguments.tide": "1"}, 422, "The act refuel was not done"),
            ({"act": "sink"}, 422, "there is refuel. Nothing was changed."),
            ({"act": ""}, 422, "there is refuel. Nothing was changed."),
        ],
    )
    def test_a_refusal_says_why_and_changes_nothing(
        self, htmx: Client, chapter: Session, fields: Any, status: int, said: str
    ) -> None:
        answer = htmx.post(address(chapter, "act"), self.fields(chapter, htmx) | fields)
        assert answer.status_code == status
        assert said in answer.content.decode()
        assert not chapter.changes.exists()

    def test_its_fields_are_sent_with_the_prompt(
        self, htmx: Client, chapter: Session, provider: ScriptedProvider
    ) -> None:
        html = get_page(htmx, chapter, "play")
        names = [
            one.attributes["name"]
            for one in all_of(html, "input")
            if one.attributes.get("form") == "prompt-form"
        ]
        assert names == ["given.degrees", "given.with_a_lamp"]
        assert by_id(html, "prompt-form").tag == "form"
        sent = {"agent_slot": "1", "user_text": "Look.", "given.degrees": "90"}
        seen = htmx.post(address(chapter, "next-call"), sent).content.decode()
        assert "points to 90 degrees." in seen
        provider.enqueue("I look.", "I wait.")
        for more in ({"given.with_a_lamp": "true"}, {"given.degrees": ""}):
            assert self.send(chapter, sent | more).status_code == 302
        given = chapter.attempts.order_by("submitted_at").values_list("given", flat=True)
        assert list(given) == [None, {"degrees": 90, "with_a_lamp": True}, None]

    def test_a_field_that_does_not_fit_is_refused(self, chapter: Session) -> None:
        sent = {"agent_slot": "1", "user_text": "Look.", "given.degrees": "360"}
        answer = self.send(chapter, sent)
        assert answer.status_code == 422
        assert "Nothing was sent." in answer.content.decode()
        assert chapter.attempts.count() == 1

    def send(self, chapter: Session, fields: dict[str, str]) -> Any:
        """Send the form of the prompt without scripts, and wait until the reply has ended."""

        async def run() -> Any:
            answer = await AsyncClient().post(address(chapter, "prompt"), fields)
            await replies_are_over()
            return answer

        return async_to_sync(run)()

    def test_a_closed_turn_offers_no_other_attempt(self, htmx: Client, chapter: Session) -> None:
        assert address(chapter, "reroll") in get_page(htmx, chapter, "play")
        html = htmx.post(address(chapter, "act"), self.fields(chapter, htmx)).content.decode()
        assert address(chapter, "reroll") not in html
        assert htmx.post(address(chapter, "reroll"), {}).status_code == 409

    def test_a_choice_changes_it(
        self, htmx: Client, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(says("native", "I light it.", ("light", {"lamp": "north"})), "It burns.")
        assert call("POST", api_address(chapter, "reroll"), {}).status_code == 201
        html = get_page(htmx, chapter, "play")
        assert "Lamps that burn: north." in by_id(html, "mode-panel").words
        earlier = by_id(html, "choose-earlier").attributes["value"]
        answer = htmx.post(
            address(chapter, "choose"),
            {"number": "1", "attempt_id": earlier, "shape": "playing"},
        )
        assert "Lamps that burn: none." in by_id(answer.content.decode(), "mode-panel").words

    def test_a_reply_that_ends_brings_it(self, chapter: Session) -> None:
        chosen = chapter.turns.get().chosen_id
        stream = async_to_sync(AsyncClient().get)(address(chapter, "stream", chosen))
        html = text_of(stream).partition("event: ended")[2].replace("\ndata: ", "\n")
        panel = by_id(html, "mode-panel")
        assert panel.attributes["hx-swap-oob"] == "true"
        assert "Oil: 5 litres." in panel.words
