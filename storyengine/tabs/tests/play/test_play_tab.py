from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents.models import Job
from sessions.chapter.chapters import create_chapter
from sessions.chapter.example import FIRST_PROMPT, fill_example
from sessions.models import Attempt, Session, State
from sessions.play.attempts import open_prompt
from sessions.play.committing import commit_attempt
from sessions.tests.factories import add_attempt, add_prompts, make_active_chapter
from storyengine.tabs.play import play_page
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of, by_id, get_page, read

pytestmark = pytest.mark.django_db


def break_turn(chapter: Session, **fields: Any) -> Attempt:
    broken = {
        "status": Attempt.Status.FAILED,
        "partial_text": "I hear",
        "error": "The line dropped.",
        "lease_until": timezone.now(),
    }
    return add_attempt(chapter, **{**broken, **fields})


class TestBeforePlay:
    def test_looking_at_tab_2_changes_nothing_and_asks(
        self, client: Client, draft: Session
    ) -> None:
        html = get_page(client, draft, "play")
        draft.refresh_from_db()
        assert draft.state == State.DRAFT_TAB1
        assert address(draft, "lock") in {one.attributes["action"] for one in all_of(html, "form")}
        assert not all_of(html, "textarea")


class TestTranscript:
    def test_prompts_are_numbered_and_white_replies_are_labelled_and_coloured(
        self, client: Client, chapter: Session
    ) -> None:
        entries = all_of(get_page(client, chapter, "play"), "p", "entry")
        assert [one.text for one in entries[:4]] == [
            "1) beat 1",
            "Agent Red: reply 1",
            "2) beat 2",
            "Agent Orange: reply 2",
        ]
        assert [one.attributes["class"] for one in entries[:4]] == [
            "entry prompt",
            "entry agent-red",
            "entry prompt",
            "entry agent-orange",
        ]

    def test_one_dashed_line_after_the_last_summarised_prompt(
        self, client: Client, chapter: Session
    ) -> None:
        paragraphs = [
            one.text
            for one in all_of(get_page(client, chapter, "play"), "p")
            if one.has_class("entry") or one.has_class("boundary")
        ]
        assert paragraphs.count("-------------") == 1
        at = paragraphs.index("-------------")
        assert paragraphs[at - 1] == "Agent Red: reply 7"
        assert paragraphs[at + 1] == "8) beat 8"

    def test_a_long_chapter_shows_its_end_and_says_so(self, client: Client) -> None:
        chapter = make_active_chapter(last_summarized_prompt_index=7)
        add_prompts(chapter, 40, text="b" * 1000, reply="r" * 1000)
        html = get_page(client, chapter, "play")
        notes = [one.words for one in all_of(html, "p", "transcript-note")]
        assert notes == ["(Earlier transcript truncated for display.)", "(summary boundary above)"]
        assert all_of(html, "p", "entry")[-1].text.startswith("Agent Red: rrr")
        [fraction] = all_of(html, "p", "fraction")
        shown, window = fraction.words.removesuffix(" characters").replace(",", "").split("/")
        assert 55_000 < int(shown) <= int(window) == 60_000

    @pytest.mark.parametrize("before", ["pending_attempt", "read_transcript"])
    def test_a_reply_that_ends_while_the_page_is_read_is_shown_once_and_moves_the_panel_on(
        self, client: Client, chapter: Session, monkeypatch: pytest.MonkeyPatch, before: str
    ) -> None:
        read_next = getattr(play_page, before)
        opened = open_prompt(chapter.pk, actor=2, words="The ice cracks.", submission_key="key-1")

        def end_meanwhile(chapter: Session, **asked: Any) -> object:
            commit_attempt(opened.attempt, "I step back.")
            return read_next(chapter, **asked)

        monkeypatch.setattr(play_page, before, end_meanwhile)
        html = get_page(client, chapter, "play")
        assert all_of(html, "p", "entry")[-1].text == "Agent Orange: I step back."
        assert not all_of(html, "article", id="running")
        assert by_id(html, "prompt-text").attributes["placeholder"].endswith("Agent Yellow?")

    def test_the_number_of_queries_is_bounded(
        self, client: Client, django_assert_max_num_queries: Any
    ) -> None:
        chapter = make_active_chapter()
        # Memory is far behind in the second and third rounds, so these pages also estimate the
        # tokens of the calls that memory needs.
        for most in (17, 29, 29):
            with django_assert_max_num_queries(most):
                get_page(client, chapter, "play")
            add_prompts(chapter, 60)


class TestPromptCell:
    def test_the_form_carries_a_new_submission_id_each_time(
        self, client: Client, chapter: Session
    ) -> None:
        ids = {
            by_id(get_page(client, chapter, "play"), "submission-key").attributes["value"]
            for _ in range(2)
        }
        assert len(ids) == 2

    def test_choosing_a_panel_is_remembered(self, htmx: Client, chapter: Session) -> None:
        assert htmx.post(address(chapter, "panel"), {"agent_slot": "2"}).status_code == 204
        chapter.refresh_from_db()
        assert chapter.next_agent_slot == 2


class TestSuggestion:
    @pytest.fixture
    def example(self, db: None) -> Session:
        chapter = fill_example(create_chapter().pk)
        chapter.state, chapter.tab1_locked = State.ACTIVE, True
        chapter.save()
        return chapter

    def test_an_untouched_example_begins_with_one(self, client: Client, example: Session) -> None:
        html = get_page(client, example, "play")
        assert by_id(html, "suggested-words").text == FIRST_PROMPT
        [button] = all_of(html, "button", name="words")
        form = button.parents[-1].attributes
        assert (form["method"], form["action"]) == ("get", address(example, "play"))
        html = get_page(client, example, "play", words=button.attributes["value"])
        assert by_id(html, "prompt-text").text == "\n" + FIRST_PROMPT


class TestBrokenTurn:
    def test_words_text_and_error_stand_together_with_what_can_be_done(
        self, client: Client, chapter: Session
    ) -> None:
        break_turn(chapter)
        broken = by_id(get_page(client, chapter, "play"), "broken").words
        for words in (
            *("The ice cracks.", "Agent Orange: I hear", "The line dropped.", "Retry"),
            *("Keep this text", "Put the words back", "Go on without it"),
        ):
            assert words in broken

    def test_retry_carries_the_same_submission_id(self, client: Client, chapter: Session) -> None:
        break_turn(chapter, words="\nTwo\nlines.")
        html = get_page(client, chapter, "play")
        keys = [one.attributes["value"] for one in all_of(html, "input", name="submission_key")]
        assert "key-1" in keys
        broken = by_id(html, "broken")
        [words] = [one for one in all_of(html, "textarea") if broken in one.parents]
        assert words.text == "\n\nTwo\nlines."

    def test_a_broken_reroll_leaves_the_prompt_alone(
        self, client: Client, chapter: Session
    ) -> None:
        turn = chapter.turns.get(number=8)
        break_turn(chapter, kind=Attempt.Kind.REROLL, turn=turn, words="beat 8")
        broken = by_id(get_page(client, chapter, "play"), "broken").words
        assert "The story still goes by the reply before it" in broken
        assert "Put the words back" not in broken

    def test_the_words_can_be_put_back_without_script(
        self, client: Client, chapter: Session
    ) -> None:
        attempt = break_turn(chapter)
        html = get_page(client, chapter, "play", words=str(attempt.pk))
        assert by_id(html, "prompt-text").text == "\nThe ice cracks."

    def test_keeping_it_makes_it_the_reply(self, htmx: Client, chapter: Session) -> None:
        break_turn(chapter)
        html = htmx.post(address(chapter, "keep")).content.decode()
        chapter.refresh_from_db()
        assert chapter.prompt_index == 9
        assert [one.text for one in all_of(html, "p", "entry")][-2:] == [
            "9) The ice cracks.",
            "Agent Orange: I hear",
        ]


class TestStatus:
    def ask(self, htmx: Client, html: str) -> Any:
        return htmx.get(by_id(html, "play-poll").attributes["hx-get"])

    def summarize(self, chapter: Session, **fields: Any) -> Job:
        """Store a summary job for the prompts that memory does not cover."""
        last = chapter.prompt_index
        attempt = chapter.turns.get(number=last).chosen
        return Job.objects.create(
            session=chapter,
            kind="summarize",
            key=f"8-{last} {attempt.pk}",
            attempt=attempt,
            from_prompt_index=8,
            to_prompt_index=last,
            **fields,
        )

    def test_while_a_reply_streams_it_asks_whether_the_program_still_answers(
        self, htmx: Client, chapter: Session
    ) -> None:
        add_attempt(chapter)
        html = get_page(htmx, chapter, "play")
        assert by_id(html, "play-poll").attributes["hx-trigger"] == "every 3s"
        assert self.ask(htmx, html).status_code == 204

    def test_a_finished_summary_brings_the_dashed_line(
        self, htmx: Client, chapter: Session
    ) -> None:
        add_prompts(chapter, 6)
        job = self.summarize(chapter)
        html = get_page(htmx, chapter, "play")
        Session.objects.filter(pk=chapter.pk).update(last_summarized_prompt_index=14)
        Job.objects.filter(pk=job.pk).update(status="done")
        update = self.ask(htmx, html).content.decode()
        paragraphs = [one.text for one in all_of(update, "p") if "class" in one.attributes]
        assert paragraphs[paragraphs.index("-------------") - 1] == "Agent Orange: reply 14"
        assert by_id(update, "play-poll").attributes["hx-trigger"] == "every 5s"
        # The update replaces neither the text field of the prompt nor the choice of a character,
        # because the Game Master may be typing.
        assert all("hidden" in one.attributes for one in all_of(update, "textarea"))
        assert not all_of(update, "input", name="agent_slot")

    def test_a_failed_summary_brings_a_banner_with_retry(
        self, htmx: Client, chapter: Session
    ) -> None:
        add_prompts(chapter, 6)
        job = self.summarize(chapter)
        html = get_page(htmx, chapter, "play")
        Job.objects.filter(pk=job.pk).update(status="failed", error="Twice no JSON.")
        update = self.ask(htmx, html).content.decode()
        [banner] = all_of(update, "div", "message-error")
        assert "Prompts 8-14" in banner.words
        assert "Twice no JSON." in banner.words
        assert "Retry" in banner.words

    def test_with_nothing_to_retry_it_is_refused(self, htmx: Client, chapter: Session) -> None:
        assert htmx.post(address(chapter, "retry-memory")).status_code == 409

    def test_when_other_cells_are_due_the_page_is_loaded_anew(
        self, htmx: Client, chapter: Session
    ) -> None:
        Session.objects.filter(pk=chapter.pk).update(is_ending=True)
        html = get_page(htmx, chapter, "play")
        Session.objects.filter(pk=chapter.pk).update(is_ending=False, state=State.ENDED)
        assert self.ask(htmx, html)["HX-Redirect"] == address(chapter, "play")

    def test_what_an_ending_chapter_s_page_swaps_in_it_has(
        self, htmx: Client, chapter: Session
    ) -> None:
        Session.objects.filter(pk=chapter.pk).update(is_ending=True)
        html = get_page(htmx, chapter, "play")
        self.summarize(chapter, status="queued")
        swapped = [
            one.attributes["id"]
            for one in read(self.ask(htmx, html).content.decode())
            if "hx-swap-oob" in one.attributes
        ]
        assert "play-poll" in swapped
        assert all(by_id(html, one) for one in swapped)


class TestLengthOfReplies:
    def shown(self, client: Client, chapter: Session) -> list[str]:
        options = all_of(get_page(client, chapter, "play"), "option")
        return [one.words for one in options if "selected" in one.attributes]

    def test_it_is_chosen_beside_the_prompt(
        self, client: Client, htmx: Client, chapter: Session
    ) -> None:
        assert self.shown(client, chapter) == ["normal replies"]
        saved = htmx.post(address(chapter, "reply-length"), {"reply_length": "long"})
        assert saved.status_code == 204
        assert self.shown(client, chapter) == ["long replies"]
