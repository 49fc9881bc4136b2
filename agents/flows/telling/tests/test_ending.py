"""The end of a chapter waits for its memory. If the memory fails, nothing is lost."""

from collections.abc import Callable

import pytest

from agents.calling.tests.bookkeeping import chunks_of
from agents.flows.telling.ending import find_setback, request_end, retry_summary
from agents.flows.tests.playing import play_many
from agents.llm.providers.failures.call_errors import ProviderBusy, ProviderRefused
from agents.llm.providers.scripted import ScriptedProvider
from agents.running.jobs import latest_jobs
from sessions.exceptions import TurnInFlight, WrongState
from sessions.models import Session, State
from sessions.play.attempts import open_prompt
from sessions.tests.factories import add_prompts, make_active_chapter

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def fail_to_end(chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs) -> None:
    """Play two prompts, and ask for the chapter's end, which fails.

    The server is too busy to write the summary that the chapter needs before it can end.
    """
    play_many(chapter, 2)
    request_end(chapter.pk)
    provider.enqueue(ProviderBusy("503"))
    run_jobs()


def test_ending_without_prompts_is_refused(chapter: Session) -> None:
    with pytest.raises(WrongState, match="no prompts"):
        request_end(chapter.pk)


def test_ending_while_a_reply_is_written_is_refused(chapter: Session) -> None:
    add_prompts(chapter, 1)
    open_prompt(chapter.pk, actor=1, words="Go.", submission_key="k")
    with pytest.raises(TurnInFlight):
        request_end(chapter.pk)


def test_ending_with_everything_remembered_ends_at_once(chapter: Session) -> None:
    add_prompts(chapter, 7)
    Session.objects.update(last_summarized_prompt_index=7)
    assert request_end(chapter.pk).state == State.ENDED


def test_the_end_waits_for_a_summary_and_adds_the_rest(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    play_many(chapter, 9)
    ending = request_end(chapter.pk)
    assert (ending.state, ending.is_ending) == (State.SUMMARIZING, True)
    run_jobs()
    chapter.refresh_from_db()
    assert (chapter.state, chapter.is_ending) == (State.ENDED, False)
    assert chunks_of(chapter) == [(1, 7), (8, 9)]


def test_a_failed_last_delta_leaves_the_chapter_in_play(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    fail_to_end(chapter, provider, run_jobs)
    chapter.refresh_from_db()
    assert (chapter.state, chapter.is_ending) == (State.ACTIVE, False)
    assert latest_jobs(chapter)["summarize"].error == "503"
    play_many(chapter, 5)
    run_jobs()
    assert chunks_of(chapter) == [(1, 7)]
    request_end(chapter.pk)
    chapter.refresh_from_db()
    assert chapter.state == State.ENDED


def test_an_end_that_fails_at_an_earlier_chunk_leaves_nothing_queued(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    add_prompts(chapter, 10)
    provider.enqueue(ProviderRefused("401"))
    request_end(chapter.pk)
    run_jobs()
    chapter.refresh_from_db()
    assert (chapter.state, chapter.is_ending) == (State.ACTIVE, False)
    setback = find_setback(chapter, latest_jobs(chapter))
    assert setback is not None
    assert (setback.job.error, setback.is_of_end) == ("401", True)
    retry_summary(chapter.pk)
    run_jobs()
    chapter.refresh_from_db()
    assert chapter.state == State.ENDED
    assert chunks_of(chapter) == [(1, 7), (8, 10)]


def test_retry_after_a_failed_end_ends_the_chapter(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    fail_to_end(chapter, provider, run_jobs)
    ending = retry_summary(chapter.pk)
    assert (ending.state, ending.is_ending) == (State.SUMMARIZING, True)
    run_jobs()
    chapter.refresh_from_db()
    assert (chapter.state, chapter.is_ending) == (State.ENDED, False)
    assert chunks_of(chapter) == [(1, 2)]


def test_retry_waits_for_a_reply_as_the_end_does(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    fail_to_end(chapter, provider, run_jobs)
    open_prompt(chapter.pk, actor=1, words="Go.", submission_key="k")
    with pytest.raises(TurnInFlight):
        retry_summary(chapter.pk)


def test_a_failed_end_that_was_played_past_waits_for_nothing(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    fail_to_end(chapter, provider, run_jobs)
    play_many(chapter, 1)
    with pytest.raises(WrongState, match="no memory waiting"):
        retry_summary(chapter.pk)
    assert find_setback(chapter, latest_jobs(chapter)) is None


def test_memory_that_is_behind_in_play_is_no_failed_end(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    add_prompts(chapter, 10)
    provider.enqueue(ProviderRefused("401"))
    request_end(chapter.pk)
    run_jobs()
    # The user plays on, so that the end is not wanted any more.
    provider.enqueue("I go on.", ProviderRefused("401"))
    play_many(chapter, 1)
    run_jobs()
    chapter.refresh_from_db()
    setback = find_setback(chapter, latest_jobs(chapter))
    assert setback is not None
    assert not setback.is_of_end
