"""Pages of long chapters and of many: what they show, and how often they ask the database."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.jobs import JOB_LEASE, latest_jobs
from agents.models import Job
from agents.tests.replies import turn_delta
from memory.tests.factories import add_delta
from sessions.models import Session, Turn
from sessions.states import State
from sessions.tests.factories import add_prompts, make_active_chapter, make_chapter
from storyengine.pages.chapter import BLOCKS_SHOWN, glance, read_page
from storyengine.pages.library import CHAPTERS_A_PAGE
from storyengine.pages.now import ITEMS_SHOWN
from storyengine.pages.play import PROMPTS_A_PAGE
from storyengine.pages.play_page import glance_at_play, read_play
from storyengine.pages.tests.addresses import address
from storyengine.pages.tests.reading import all_of, by_id

pytestmark = pytest.mark.django_db

AtMost = Callable[[int], Any]


def add_turn(chapter: Session, **fields: Any) -> Turn:
    return Turn.objects.create(
        session=chapter,
        **{
            "submission_key": "key-1",
            "agent_slot": 2,
            "user_text": "The ice cracks.",
            "lease_until": timezone.now() + timedelta(minutes=1),
            **fields,
        },
    )


def summarize(chapter: Session, first: int, **fields: Any) -> Job:
    return Job.objects.create(
        session=chapter,
        kind=Job.Kind.SUMMARIZE,
        **{
            "key": f"{first}",
            "status": Job.Status.DONE,
            "from_prompt_index": first,
            "to_prompt_index": first + 6,
            **fields,
        },
    )


class TestPollsWithNothingNew:
    def test_tab_2(
        self, htmx: Client, chapter: Session, django_assert_max_num_queries: AtMost
    ) -> None:
        add_turn(chapter)
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


class TestNews:
    """What a glance sees is what the page shows."""

    @pytest.mark.parametrize("status", Turn.Status.values)
    def test_a_turn(self, chapter: Session, status: str) -> None:
        before = glance_at_play(chapter.pk).version
        add_turn(chapter, status=status)
        assert glance_at_play(chapter.pk).version == read_play(chapter.pk).version != before

    def test_memory_and_drafts(self, chapter: Session) -> None:
        versions = {glance(chapter.pk).version}
        add_delta(chapter, 8, 14, turn_delta(8, 14))
        versions.add(glance(chapter.pk).version)
        chapter.narrative_drafts.create(target_words=100, source_snapshot={}, chapter_text="Prose.")
        versions.add(glance(chapter.pk).version)
        assert len(versions) == 3
        assert glance(chapter.pk).version == read_page(chapter.pk, "").version

    def test_a_reply_whose_process_died_is_settled(self, htmx: Client, chapter: Session) -> None:
        turn = add_turn(chapter)
        seen = {"shape": "playing", "seen": glance_at_play(chapter.pk).version}
        Turn.objects.update(lease_until=timezone.now() - timedelta(minutes=1))
        assert htmx.get(address(chapter, "play-status"), seen).status_code == 200
        turn.refresh_from_db()
        assert turn.status == Turn.Status.FAILED

    def test_a_summary_whose_worker_died_is_queued_again(self, chapter: Session) -> None:
        expired = timezone.now() - JOB_LEASE
        job = summarize(chapter, 8, status=Job.Status.RUNNING, lease_until=expired)
        glance(chapter.pk)
        job.refresh_from_db()
        assert job.status == Job.Status.QUEUED

    def test_a_chapter_that_waits_for_no_summary_is_freed(self, chapter: Session) -> None:
        Session.objects.filter(pk=chapter.pk).update(state=State.SUMMARIZING)
        assert glance_at_play(chapter.pk).chapter.state == State.ACTIVE


class TestJobs:
    def test_the_last_summary_counts_and_before_it_the_one_that_comes_next(self) -> None:
        chapter = make_active_chapter(last_summarized_prompt_index=21)
        done = [summarize(chapter, first) for first in (1, 8, 15)]
        assert latest_jobs(chapter) == {Job.Kind.SUMMARIZE: done[-1]}
        waiting = summarize(chapter, 22, status=Job.Status.FAILED)
        assert latest_jobs(chapter) == {Job.Kind.SUMMARIZE: waiting}


class TestLibrary:
    def test_it_comes_in_pages_the_last_played_first(
        self, client: Client, django_assert_max_num_queries: AtMost
    ) -> None:
        now = timezone.now()
        for number in range(CHAPTERS_A_PAGE + 1):
            played = now - timedelta(days=number)
            make_chapter(title=f"Chapter {number}.", last_played_at=played)
        with django_assert_max_num_queries(3):
            html = client.get("/").content.decode()
        titles = [one.words for one in all_of(html, "a", "chapter-title")]
        assert titles == [f"Chapter {number}." for number in range(CHAPTERS_A_PAGE)]
        [onwards] = [one for one in all_of(html, "a") if one.words == "Played earlier"]
        html = client.get("/" + str(onwards.attributes["href"])).content.decode()
        assert [one.words for one in all_of(html, "a", "chapter-title")] == [
            f"Chapter {CHAPTERS_A_PAGE}."
        ]

    def test_a_page_that_is_not_there_is_the_last(self, client: Client) -> None:
        make_chapter(title="The Dark Lamp")
        for page in ("99", "0", "x" * 5_000):
            assert "The Dark Lamp" in client.get("/", {"page": page}).content.decode()


class TestTranscript:
    @pytest.fixture
    def long(self) -> Session:
        chapter = make_active_chapter()
        add_prompts(chapter, PROMPTS_A_PAGE + 3)
        return chapter

    def test_it_comes_in_pages(self, client: Client, long: Session) -> None:
        first = client.get(address(long, "transcript")).content.decode()
        assert len(all_of(first, "p", "entry")) == 2 * PROMPTS_A_PAGE
        last = client.get(address(long, "transcript"), {"page": "2"}).content.decode()
        shown = [one.attributes.get("id") for one in all_of(last, "p", "entry")]
        assert [one for one in shown if one] == [
            f"prompt-{PROMPTS_A_PAGE + number}" for number in (1, 2, 3)
        ]

    @pytest.mark.parametrize("prompt", [1, PROMPTS_A_PAGE, PROMPTS_A_PAGE + 1])
    def test_the_page_of_a_prompt_is_found(
        self, client: Client, long: Session, prompt: int
    ) -> None:
        html = client.get(address(long, "transcript"), {"prompt": str(prompt)}).content.decode()
        assert by_id(html, f"prompt-{prompt}").words.startswith(f"{prompt})")

    @pytest.mark.parametrize("prompt", ["0", "999999", "²", "-1", "9" * 5_000])
    def test_a_prompt_that_is_not_there_is_the_first_page(
        self, client: Client, long: Session, prompt: str
    ) -> None:
        html = client.get(address(long, "transcript"), {"prompt": prompt}).content.decode()
        assert by_id(html, "prompt-1").words.startswith("1)")

    def test_what_was_set_aside_stands_at_the_end(self, client: Client, long: Session) -> None:
        add_turn(long, status=Turn.Status.SET_ASIDE)
        pages = [
            client.get(address(long, "transcript"), {"page": page}).content.decode()
            for page in ("1", "2")
        ]
        assert ["The ice cracks." in html for html in pages] == [False, True]


class TestMemory:
    @pytest.fixture
    def long(self) -> Session:
        """With as many blocks as two pieces and one more, each with a truth of its own."""
        count = 2 * BLOCKS_SHOWN + 1
        chapter = make_active_chapter(
            prompt_index=7 * count, last_summarized_prompt_index=7 * count
        )
        for number in range(count):
            first = 7 * number + 1
            locks = {"canon_locks": [f"truth {number}"]}
            add_delta(chapter, first, first + 6, {**turn_delta(first, first + 6), **locks})
        return chapter

    def test_it_comes_in_pieces_the_last_first(self, client: Client, long: Session) -> None:
        html = client.get(address(long, "draft")).content.decode()
        seen: list[list[str]] = []
        while len(seen) < 3:
            links = all_of(html, "a", "saw-link")
            seen.append([str(one.attributes["href"]).rpartition("/")[2] for one in links])
            earlier = [one for one in all_of(html, "a") if one.words == "Earlier memory"]
            if earlier:
                query = str(earlier[0].attributes["href"]).partition("#")[0]
                html = client.get(address(long, "draft") + query).content.decode()
        count = 2 * BLOCKS_SHOWN + 1
        numbers = [str(number) for number in range(1, count + 1)]
        assert seen == [numbers[BLOCKS_SHOWN + 1 :], numbers[1 : BLOCKS_SHOWN + 1], numbers[:1]]

    def test_the_now_view_says_what_it_leaves_out(self, client: Client, long: Session) -> None:
        html = client.get(address(long, "draft")).content.decode()
        count = 2 * BLOCKS_SHOWN + 1
        shown = [number for number in range(count) if f">truth {number}<" in html]
        assert len(shown) == ITEMS_SHOWN
        assert shown[-1] == count - 1
        assert f"{count - ITEMS_SHOWN} more" in by_id(html, "memory-now").words
        html = client.get(address(long, "draft"), {"show": "now", "all": "1"}).content.decode()
        assert all(f">truth {number}<" in html for number in range(count))


def test_the_estimate_is_a_page_of_its_own_too(client: Client, chapter: Session) -> None:
    Session.objects.filter(pk=chapter.pk).update(state=State.ENDED)
    answer = client.get(reverse("pages:build-estimate", args=[chapter.pk]))
    assert answer.status_code == 200
    assert "tokens" in answer.content.decode()
