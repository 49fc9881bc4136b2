"""Tests in which two threads do the same thing or opposite things at once.

One of the threads has to win, and neither may wait for ever.
"""

import asyncio
import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents.flows.remembering.summarizing import queue_due_summary
from agents.flows.replies.turns import start_prompt, start_reroll
from agents.llm.providers.base import ModelRequest
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job, LLMArtifact
from agents.running.jobs import due_jobs
from agents.running.live import LIVE_REPLIES
from agents.running.tests.racing import check, opening
from agents.running.work import work_on
from agents.tests.replies import answer_in_form
from memory.models import MemoryBlock
from sessions.chapter.chapters import reset_chapter
from sessions.exceptions import TurnInFlight
from sessions.models import Attempt, Event, Session
from sessions.play.attempts import OpenedAttempt
from sessions.play.breaking import stop_attempt
from sessions.play.committing import commit_attempt
from sessions.record.chosen_events import chosen_events
from sessions.tests.factories import add_prompts, make_active_chapter
from sessions.tests.racing import LONG, Work, at_once, refusals, successes

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_was_papered_over(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail a test that logged a warning.

    A deadlock is an error even if the engine catches it and tries again.
    """
    yield
    records = caplog.get_records("call")
    assert [r.getMessage() for r in records if r.levelno >= logging.WARNING] == []


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def do_what_is_due() -> None:
    """Run at most three due jobs in a row, and check that no job is due after them.

    One job can make another job due.
    """
    for _ in range(3):
        if job_id := due_jobs().values_list("pk", flat=True).first():
            work_on(job_id)
    assert not due_jobs().exists()


def opened(chapter: Session) -> Attempt:
    return opening(chapter, "The door opens.", uuid.uuid4().hex)().attempt


def played(start: Callable[[], Any]) -> Work:
    """Return a function that starts a reply in its own event loop and waits until the reply has
    ended."""

    async def run() -> OpenedAttempt:
        attempt: OpenedAttempt = await start()
        live = LIVE_REPLIES.get(attempt.attempt.pk) if attempt.must_run else None
        if live is not None and live.task is not None:
            # A reset of the chapter cancels the task. Any error of the task is raised here.
            await asyncio.wait({live.task})
            if not live.task.cancelled():
                live.task.result()
        return attempt

    return async_to_sync(run)


def chapter_with_a_due_summary() -> tuple[Session, Job]:
    chapter = make_active_chapter()
    add_prompts(chapter, 7)
    queue_due_summary(chapter)
    return chapter, Job.objects.get()


def meet_at_the_answer(provider: ScriptedProvider, agent_word: str) -> threading.Barrier:
    """Delay the first answer of this agent until another thread reaches the returned barrier."""
    meeting = threading.Barrier(2)
    calls: list[ModelRequest] = []

    def answer(request: ModelRequest) -> str:
        if agent_word in request.messages[0].content:
            calls.append(request)
            if len(calls) == 1:
                meeting.wait(timeout=LONG)
        return answer_in_form(request)

    provider.fallback = answer
    return meeting


def after(meeting: threading.Barrier, work: Work) -> Work:
    def run() -> Any:
        meeting.wait(timeout=LONG)
        return work()

    return run


def test_the_same_prompt_twice_is_answered_once(
    chapter: Session, provider: ScriptedProvider
) -> None:
    def send() -> Any:
        return start_prompt(
            chapter.pk, actor=1, words="The door opens.", submission_key="the-form-s-id"
        )

    results = at_once(played(send), played(send))
    assert sum(result.must_run for result in successes(results)) == 1
    assert all(isinstance(refusal, TurnInFlight) for refusal in refusals(results))
    assert len(provider.history) == 1
    check(chapter)
    assert (chapter.prompt_index, chapter.events.count()) == (1, 2)


def test_of_two_prompts_one_wins(chapter: Session) -> None:
    results = at_once(opening(chapter, "The door opens.", "a"), opening(chapter, "It shuts.", "b"))
    (winner,) = successes(results)
    (refusal,) = refusals(results)
    assert isinstance(refusal, TurnInFlight)
    commit_attempt(winner.attempt, "I step inside.")
    check(chapter)
    assert chapter.events.get(role=Event.Role.USER).text == winner.attempt.words


def test_a_reply_is_stopped_or_committed(chapter: Session) -> None:
    attempt = opened(chapter)
    was_stopped, events = at_once(
        lambda: stop_attempt(attempt, partial_text="I step"),
        lambda: commit_attempt(attempt, "I step inside."),
    )
    assert was_stopped != bool(events)
    attempt.refresh_from_db()
    assert attempt.status == (Attempt.Status.STOPPED if was_stopped else Attempt.Status.COMMITTED)
    check(chapter)
    assert chapter.prompt_index == (0 if was_stopped else 1)


def test_memory_is_stored_while_its_last_reply_is_written_again(
    provider: ScriptedProvider,
) -> None:
    chapter, job = chapter_with_a_due_summary()
    meeting = meet_at_the_answer(provider, "turn_delta")

    def write_again() -> Any:
        return start_reroll(chapter.pk, submission_key="r")

    at_once(lambda: work_on(job.pk), after(meeting, played(write_again)))
    # The attempt that is chosen at turn 7 may have no summary. This prompt asks for the missing
    # summary.
    played(lambda: start_prompt(chapter.pk, actor=1, words="Go.", submission_key="n"))()
    do_what_is_due()
    check(chapter)
    assert chapter.last_summarized_prompt_index == 7
    reply = chosen_events(chapter, from_prompt=7, to_prompt=7).last()
    summaries = [r.messages[-1].content for r in provider.history if is_of_agent_8(r)]
    # The latest summary was written from the reply that the transcript now shows.
    assert reply is not None
    assert reply.text in summaries[-1]


def test_two_workers_write_one_block(provider: ScriptedProvider) -> None:
    chapter, job = chapter_with_a_due_summary()
    at_once(*[lambda: work_on(job.pk)] * 3)
    check(chapter)
    assert chapter.last_summarized_prompt_index == 7
    assert len(provider.history) == 1


@pytest.mark.parametrize("agent", ["a character", "agent 8"])
def test_a_chapter_is_reset_while_a_call_is_recorded(
    provider: ScriptedProvider, agent: str
) -> None:
    chapter, job = chapter_with_a_due_summary()
    meeting = meet_at_the_answer(provider, "")

    def send() -> Any:
        return start_prompt(chapter.pk, actor=1, words="The door opens.", submission_key="k")

    call = played(send) if agent == "a character" else lambda: work_on(job.pk)
    _, fresh = at_once(call, after(meeting, lambda: reset_chapter(chapter.pk)))
    assert list(Session.objects.all()) == [fresh]
    for model in (Event, Attempt, Job, MemoryBlock, LLMArtifact):
        assert not model._default_manager.exists()
    assert not LIVE_REPLIES


def is_of_agent_8(request: ModelRequest) -> bool:
    return "turn_delta" in request.messages[0].content
