"""The end of a chapter waits for its memory. If the memory fails, nothing is lost."""

import uuid
from collections.abc import Callable

import pytest

from agents.calling.tests.bookkeeping import chunks_of
from agents.flows.telling.ending import reopen, request_end, retry_summary
from agents.flows.telling.narrating import request_build
from agents.flows.tests.playing import play_many
from agents.llm.providers.failures.call_errors import ProviderBusy
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


@pytest.mark.parametrize("act", [reopen, retry_summary, request_build])
def test_what_needs_an_end_or_missing_memory_is_refused_without(
    chapter: Session, act: Callable[[uuid.UUID], object]
) -> None:
    with pytest.raises(WrongState):
        act(chapter.pk)
    chapter.refresh_from_db()
    assert chapter.state == State.ACTIVE
