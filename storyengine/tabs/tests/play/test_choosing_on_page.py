"""Tests of several replies to one prompt on Tab 2, and of the choice between them."""

import uuid
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents.tests.replies import turn_delta
from memory.tests.factories import add_delta
from sessions.models import Attempt, Session, State
from sessions.tests.factories import add_attempt, add_events, add_prompts, add_reply
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import Element, all_of, by_id, get_page, read
from testing.refusals import PLAY_HAS_GONE_ON

pytestmark = pytest.mark.django_db


@pytest.fixture
def replies(chapter: Session) -> list[Attempt]:
    """Return three replies to the latest prompt, the second of which is chosen."""
    first = chapter.turns.get(number=8).chosen
    second = add_reply(chapter, 8, "again")
    return [first, second, add_reply(chapter, 8, "and again", is_chosen=False)]


def entries(html: str) -> list[str]:
    return [one.text for one in read(html) if one.has_class("entry")]


def not_chosen(html: str) -> list[str]:
    return [one.text for one in all_of(html, "div", "not-chosen")]


def chosen_of(chapter: Session) -> Attempt:
    return chapter.turns.get(number=8).chosen


def choose(client: Client, chapter: Session, attempt: Attempt | str, number: int = 8) -> Any:
    key = attempt.pk if isinstance(attempt, Attempt) else attempt
    fields = {"number": number, "attempt_id": key, "shape": "playing"}
    return client.post(address(chapter, "choose"), fields)


def show_all(client: Client, chapter: Session, wanted: str = "1") -> Any:
    fields = {"all": wanted, "shape": "playing"}
    return client.post(address(chapter, "show-replies"), fields)


class TestHowAReplyEnded:
    def told(self, client: Client, chapter: Session, **ending: Any) -> list[str]:
        Attempt.objects.filter(chosen_for__number=8).update(**ending)
        html = get_page(client, chapter, "play")
        return [one.words for one in all_of(html, "p", id="reply-end")]

    def test_the_gm_is_told_as_whom_the_model_went_on(
        self, client: Client, chapter: Session
    ) -> None:
        [told] = self.told(client, chapter, ended_before="Tom <b>")
        assert told.startswith("The model went on as Tom <b>, so the reply to prompt 8 ends before")
        assert "Another reply to prompt 8" in get_page(client, chapter, "play")

    def test_the_gm_is_told_that_a_reply_was_cut(self, client: Client, chapter: Session) -> None:
        [told] = self.told(client, chapter, was_cut=True)
        assert "reached the length limit and is not whole" in told


class TestChoice:
    @pytest.fixture
    def buttons(self, client: Client, chapter: Session, replies: list[Attempt]) -> list[Element]:
        html = get_page(client, chapter, "play")
        return [by_id(html, name) for name in ("choose-earlier", "choose-later")]

    def form(self, html: str) -> list[Element]:
        return all_of(html, "form", "choice")

    def test_the_chosen_reply_is_counted_and_shown_alone(
        self, client: Client, chapter: Session, replies: list[Attempt]
    ) -> None:
        html = get_page(client, chapter, "play")
        [form] = self.form(html)
        assert "Reply 2 of 3" in form.words
        assert entries(html)[-2:] == ["8) beat 8", "Agent Orange: again"]

    def test_a_button_leads_each_way_and_says_where(
        self, buttons: list[Element], replies: list[Attempt]
    ) -> None:
        assert [one.attributes["value"] for one in buttons] == [
            str(replies[0].pk),
            str(replies[2].pk),
        ]
        assert [one.attributes["name"] for one in buttons] == ["attempt_id"] * 2
        assert [one.attributes["aria-label"] for one in buttons] == [
            "Choose the reply before",
            "Choose the reply after",
        ]

    @pytest.mark.parametrize(("at", "name"), [(0, "choose-earlier"), (2, "choose-later")])
    def test_at_either_end_the_button_stays_and_sends_nothing(
        self, htmx: Client, chapter: Session, replies: list[Attempt], at: int, name: str
    ) -> None:
        html = choose(htmx, chapter, replies[at]).content.decode()
        button = by_id(html, name).attributes
        assert (button["type"], button["aria-disabled"]) == ("button", "true")
        assert "name" not in button
        other = {"choose-earlier": "choose-later", "choose-later": "choose-earlier"}[name]
        assert by_id(html, other).attributes["value"] == str(replies[1].pk)

    def test_the_story_goes_by_it_at_once(
        self, htmx: Client, chapter: Session, replies: list[Attempt]
    ) -> None:
        html = choose(htmx, chapter, replies[2]).content.decode()
        assert entries(html)[-2:] == ["8) beat 8", "Agent Orange: and again"]
        assert "Reply 3 of 3" in self.form(html)[0].words
        assert chosen_of(chapter) == replies[2]

    @pytest.mark.parametrize("shows_all", [False, True])
    def test_those_who_cannot_see_are_told_which_it_is(
        self, htmx: Client, chapter: Session, replies: list[Attempt], shows_all: bool
    ) -> None:
        Session.objects.filter(pk=chapter.pk).update(shows_all_replies=shows_all)
        html = choose(htmx, chapter, replies[0]).content.decode()
        said = by_id(html, "announcement")
        assert said.words == "Reply 1 of 3. Agent Orange: reply 8"
        assert said.attributes["aria-live"] == "polite"


class TestRefusals:
    def refused(self, client: Client, chapter: Session, *sent: Any, **more: Any) -> int:
        before = chosen_of(chapter)
        response = choose(client, chapter, *sent, **more)
        assert chosen_of(chapter) == before
        return int(response.status_code)

    def test_once_play_has_gone_on(
        self, htmx: Client, chapter: Session, replies: list[Attempt]
    ) -> None:
        add_prompts(chapter, 1)
        assert self.refused(htmx, chapter, replies[0]) == 409
        html = get_page(htmx, chapter, "play")
        assert not all_of(html, "form", "choice")
        assert "Agent Orange: again" in entries(html)

    @pytest.mark.parametrize(
        ("sent", "status"), [("", 422), ("x", 422), ("\x00", 422), (str(uuid.UUID(int=4)), 404)]
    )
    def test_what_is_no_reply_of_the_chapter(
        self, htmx: Client, chapter: Session, sent: str, status: int
    ) -> None:
        assert self.refused(htmx, chapter, sent) == status

    def test_a_plain_form_gets_a_page_without_the_ids_that_it_sent(
        self, client: Client, chapter: Session, replies: list[Attempt]
    ) -> None:
        add_prompts(chapter, 1)
        response = choose(client, chapter, replies[0])
        assert response.status_code == 409
        html = response.content.decode()
        assert PLAY_HAS_GONE_ON in html
        assert not all_of(html, "textarea")


class TestMemory:
    @pytest.fixture
    def covered(self, chapter: Session) -> Session:
        """Return a chapter whose memory has a delta for the chosen attempt of the latest turn."""
        add_delta(chapter, 8, 8, turn_delta(8, 8))
        Session.objects.filter(pk=chapter.pk).update(last_summarized_prompt_index=8)
        return chapter

    def test_the_dashed_line_follows_the_choice_there_and_back(
        self, htmx: Client, covered: Session
    ) -> None:
        def line() -> str:
            """Return the last text above the dashed line."""
            shown = [
                one.text
                for one in all_of(get_page(htmx, covered, "play"), "p")
                if one.has_class("entry") or one.has_class("boundary")
            ]
            assert shown.count("-------------") == 1
            return shown[shown.index("-------------") - 1]

        first = chosen_of(covered)
        other = add_reply(covered, 8, "again", is_chosen=False)
        above = [line()]
        for attempt in (other, first):
            choose(htmx, covered, attempt)
            above.append(line())
        assert above == ["Agent Orange: reply 8", "Agent Red: reply 7", "Agent Orange: reply 8"]


class TestAllReplies:
    def test_the_switch_says_whether_all_are_shown(
        self, htmx: Client, chapter: Session, replies: list[Attempt]
    ) -> None:
        html = get_page(htmx, chapter, "play")
        assert not not_chosen(html)
        for wanted in ("1", "0"):
            [sent] = all_of(html, "input", name="all")
            assert sent.attributes["value"] == wanted
            assert by_id(html, "all-replies").words == "All replies"
            is_on = {"1": "false", "0": "true"}[wanted]
            assert by_id(html, "all-replies").attributes["aria-pressed"] == is_on
            html = show_all(htmx, chapter, wanted).content.decode()
            assert bool(not_chosen(html)) == (wanted == "1")

    @pytest.mark.parametrize("name", ["play", "transcript"])
    def test_each_that_is_not_chosen_is_marked_in_a_word_that_is_no_text(
        self, htmx: Client, chapter: Session, replies: list[Attempt], name: str
    ) -> None:
        show_all(htmx, chapter)
        html = get_page(htmx, chapter, name)
        assert entries(html)[-4:] == [
            "8) beat 8",
            "Agent Orange: reply 8",
            "Agent Orange: again",
            "Agent Orange: and again",
        ]
        assert not_chosen(html) == [entries(html)[-3], entries(html)[-1]]
        marks = [one for one in all_of(html, "span", role="img") if one.has_class("attempt-mark")]
        assert [one.parents[-1].text for one in marks] == entries(html)[-3:]
        said = ["1 of 3 · not chosen", "2 of 3 · chosen", "3 of 3 · not chosen"]
        assert [one.attributes["data-says"] for one in marks] == said
        assert [one.attributes["aria-label"] for one in marks] == [f"{one}." for one in said]

    def test_each_that_is_not_chosen_can_be_used_while_the_turn_is_open(
        self, htmx: Client, chapter: Session, replies: list[Attempt]
    ) -> None:
        def buttons() -> list[Element]:
            return all_of(get_page(htmx, chapter, "play"), "button", "use")

        add_reply(chapter, 3, "another third")
        show_all(htmx, chapter)
        assert [one.attributes["value"] for one in buttons()] == [
            *(str(replies[0].pk), str(replies[2].pk))
        ]
        assert {one.attributes["form"] for one in buttons()} == {"choice"}
        assert [one.attributes["aria-label"] for one in buttons()] == [
            *("Use reply 1 of 3", "Use reply 3 of 3")
        ]
        assert all_of(get_page(htmx, chapter, "play"), "form", id="choice")
        assert not all_of(get_page(htmx, chapter, "transcript"), "button", "use")
        Session.objects.filter(pk=chapter.pk).update(state=State.ENDED)
        assert not buttons()

    def test_words_that_differ_are_shown_with_their_reply(
        self, htmx: Client, chapter: Session
    ) -> None:
        other = add_attempt(
            chapter,
            turn=chapter.turns.get(number=8),
            kind=Attempt.Kind.REROLL,
            status=Attempt.Status.COMMITTED,
            committed_at=timezone.now(),
            words="The ice holds.",
        )
        add_events(other, 8, "I walk.")
        html = show_all(htmx, chapter).content.decode()
        assert entries(html)[-4:-2] == ["8) beat 8", "Agent Orange: reply 8"]
        assert not_chosen(html) == ["8) The ice holds.", "Agent Orange: I walk."]
        # A link to prompt 8 leads to the words of its chosen attempt.
        assert by_id(html, "prompt-8").text == "8) beat 8"
