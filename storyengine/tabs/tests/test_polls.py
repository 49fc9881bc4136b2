"""Tests of polls, the requests by which a page asks for news."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.flows.replies.choosing import choose_reply
from agents.models import Job
from agents.running.database import in_database
from agents.running.jobs import JOB_LEASE
from agents.tests.replies import turn_delta
from memory.tests.factories import add_delta
from sessions.models import Attempt, Session, State
from sessions.tests.factories import (
    add_attempt,
    add_reply,
    make_chapter,
)
from storyengine.tabs.chapter.chapter_page import read_page
from storyengine.tabs.chapter.chapter_signs import ChapterSigns, read_status
from storyengine.tabs.play.play_page import PlayPage, read_play, read_play_status
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import by_id

pytestmark = pytest.mark.django_db

AtMost = Callable[[int], Any]


def summarize(chapter: Session, first: int, **fields: Any) -> Job:
    """Store a summary job that is done. Its stretch begins with prompt `first` and has at most
    seven prompts."""
    last = min(first + 6, chapter.prompt_index)
    return Job.objects.create(
        session=chapter,
        kind=Job.Kind.SUMMARIZE,
        key=f"{first}",
        attempt=chapter.turns.get(number=last).chosen,
        from_prompt_index=first,
        to_prompt_index=last,
        **{"status": Job.Status.DONE, **fields},
    )


class TestPollsWithNothingNew:
    def test_tab_2(
        self, htmx: Client, chapter: Session, django_assert_max_num_queries: AtMost
    ) -> None:
        add_attempt(chapter)
        summarize(chapter, 8, status=Job.Status.QUEUED)
        seen = {"shape": "playing", "seen": read_play(chapter.pk).version}
        with django_assert_max_num_queries(2):
            answer = htmx.get(address(chapter, "play-status"), seen)
        assert answer.status_code == 204

    def test_tab_3(
        self, htmx: Client, chapter: Session, django_assert_max_num_queries: AtMost
    ) -> None:
        summarize(chapter, 8, status=Job.Status.QUEUED)
        seen = {"seen": read_page(chapter.pk, "").version}
        with django_assert_max_num_queries(2):
            answer = htmx.get(address(chapter, "draft-status"), seen)
        assert answer.status_code == 204

    def test_the_lock(self, htmx: Client, django_assert_max_num_queries: AtMost) -> None:
        chapter = make_chapter(state=State.LOCKING)
        shown = htmx.get(address(chapter, "lock-status")).content.decode()
        poll = by_id(shown, "locking").attributes["hx-get"]
        assert poll is not None
        with django_assert_max_num_queries(2):
            assert htmx.get(poll).status_code == 204

    @pytest.mark.parametrize("name", ["play-status", "draft-status", "lock-status"])
    def test_a_chapter_that_is_gone_is_said_to_be(self, htmx: Client, name: str) -> None:
        chapter = make_chapter()
        gone = address(chapter, name)
        chapter.delete()
        assert htmx.get(gone).status_code == 404


class TestPollsWithNews:
    """Tests that a poll with news makes only two queries in the threads that also store replies.

    All other queries run in other threads.
    """

    @pytest.fixture
    def queries_beside_replies(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        counts: list[int] = []

        async def counting(work: Callable[..., Any], *args: Any) -> Any:
            def count() -> Any:
                with CaptureQueriesContext(connection) as queries:
                    done = work(*args)
                counts.append(len(queries))
                return done

            return await in_database(count)

        for module in ("play.play_tab", "chapter.chapter_tab", "setup.setup_tab"):
            monkeypatch.setattr(f"storyengine.tabs.{module}.in_database", counting)
        return counts

    @pytest.mark.parametrize("name", ["play-status", "draft-status"])
    def test_tabs_2_and_3(
        self, htmx: Client, chapter: Session, queries_beside_replies: list[int], name: str
    ) -> None:
        answer = htmx.get(address(chapter, name), {"shape": "playing", "seen": "something old"})
        assert answer.status_code == 200
        assert answer.content
        assert queries_beside_replies == [2]

    def test_the_lock(self, htmx: Client, queries_beside_replies: list[int]) -> None:
        chapter = make_chapter(state=State.LOCKING)
        answer = htmx.get(address(chapter, "lock-status")).content.decode()
        assert "hx-get" in by_id(answer, "locking").attributes
        assert queries_beside_replies == [2]

    def test_a_chapter_that_ends_while_its_tab_2_is_answered_is_gone_to(
        self, htmx: Client, chapter: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def end_meanwhile(session_id: uuid.UUID) -> PlayPage:
            page = read_play_status(session_id)
            Session.objects.filter(pk=session_id).update(state=State.ENDED, is_ending=False)
            return page

        Session.objects.filter(pk=chapter.pk).update(is_ending=True)
        monkeypatch.setattr("storyengine.tabs.play.play_tab.read_play_status", end_meanwhile)
        seen = {"shape": "ending", "seen": "something old"}
        answer = htmx.get(address(chapter, "play-status"), seen)
        assert answer["HX-Redirect"] == address(chapter, "play")

    @pytest.mark.parametrize("state", [State.LOCKING, State.SUMMARIZING, State.NARRATING])
    def test_tab_3_asks_on_when_a_job_ends_between_its_chapter_and_its_jobs(
        self, chapter: Session, state: State
    ) -> None:
        chapter.state = state
        assert ChapterSigns(chapter, {}, 0, 0).poll_seconds == 2


class TestNews:
    """Tests that a page and its poll always have the same version, and that the version changes
    with any news."""

    @pytest.mark.parametrize("status", Attempt.Status.values)
    def test_a_turn(self, chapter: Session, status: str) -> None:
        before = read_play_status(chapter.pk).version
        add_attempt(chapter, status=status)
        assert read_play_status(chapter.pk).version == read_play(chapter.pk).version != before

    def test_memory_and_drafts(self, chapter: Session) -> None:
        versions = {read_status(chapter.pk).version}
        add_delta(chapter, 8, 14, turn_delta(8, 14))
        versions.add(read_status(chapter.pk).version)
        chapter.narrative_drafts.create(target_words=100, source_snapshot={}, chapter_text="Prose.")
        versions.add(read_status(chapter.pk).version)
        assert len(versions) == 3
        assert read_status(chapter.pk).version == read_page(chapter.pk, "").version

    def test_a_reply_whose_process_died_is_settled(self, htmx: Client, chapter: Session) -> None:
        attempt = add_attempt(chapter)
        seen = {"shape": "playing", "seen": read_play_status(chapter.pk).version}
        Attempt.objects.update(lease_until=timezone.now() - timedelta(minutes=1))
        assert htmx.get(address(chapter, "play-status"), seen).status_code == 200
        attempt.refresh_from_db()
        assert attempt.status == Attempt.Status.FAILED

    def test_a_summary_whose_worker_died_is_queued_again(self, chapter: Session) -> None:
        expired = timezone.now() - JOB_LEASE
        job = summarize(chapter, 8, status=Job.Status.RUNNING, lease_until=expired)
        read_status(chapter.pk)
        job.refresh_from_db()
        assert job.status == Job.Status.QUEUED

    def test_another_choice_that_brings_other_memory_of_the_same_size(
        self, chapter: Session
    ) -> None:
        turn = chapter.turns.get(number=8)
        first = turn.chosen
        add_delta(chapter, 8, 8, turn_delta(8, 8))
        add_reply(chapter, 8, "another")
        add_delta(chapter, 8, 8, turn_delta(8, 8))
        before = read_status(chapter.pk)
        assert before.block_count == 3
        choose_reply(chapter.pk, 8, first.pk)
        after = read_status(chapter.pk)
        assert after.block_count == 3
        assert after.memory_version != before.memory_version
        assert after.version == read_page(chapter.pk, "").version
