"""Tests of a worker that is stopped and gives its jobs back, and of the other ways in which a job
can end."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import IntegrityError, InterfaceError, OperationalError

from agents.calling import objects as json_replies
from agents.flows.beginning.locking import request_lock
from agents.flows.telling.narrating import request_build
from agents.flows.telling.tests.narrations import (
    make_chapter_of_two_scenes,
    make_ended_chapter,
    words,
)
from agents.flows.tests.playing import play
from agents.llm.providers.failures.call_errors import ProviderUnreachable, StreamBroken
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import Job, LLMArtifact
from agents.prompting.forms.object_forms import read_reply
from agents.running import work
from agents.running.jobs import queue_job, renew
from agents.running.work import STOPPING, work_on
from agents.worker.tasks import stop_working
from sessions.models import Session, State
from sessions.tests.factories import add_prompts, make_active_chapter, make_chapter

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]
# The number of seconds for waits that must not end by themselves. Every test takes less time.
LONG = 30.0
GONE = [ProviderUnreachable("No connection."), StreamBroken("It broke off.")]


@pytest.fixture(autouse=True)
def _running_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(work, "NOTICE_SECONDS", 0.01)
    monkeypatch.setattr(work, "GONE_TOGETHER_SECONDS", 0.01)
    yield
    STOPPING.clear()


def lock() -> tuple[Session, Job]:
    chapter = make_chapter()
    return chapter, request_lock(chapter.pk)


def summarize() -> tuple[Session, Job]:
    chapter = make_active_chapter()
    add_prompts(chapter, 6)
    play(chapter)
    return chapter, Job.objects.get()


def narrate() -> tuple[Session, Job]:
    chapter = make_ended_chapter()
    return chapter, request_build(chapter.pk)


START: dict[str, tuple[Callable[[], tuple[Session, Job]], State]] = {
    "lock": (lock, State.LOCKING),
    "summarize": (summarize, State.SUMMARIZING),
    "narrate": (narrate, State.NARRATING),
}


def stop_in_the_middle(provider: ScriptedProvider) -> None:
    """Make the next call stop the worker after the first word of the answer, and then hang."""

    class Gate(asyncio.Event):
        async def wait(self) -> bool:  # type: ignore[override]
            stop_working()
            return await asyncio.wait_for(super().wait(), LONG)

    provider.enqueue(Script("The beginning of it.", gate=Gate(), gate_at=1))


@pytest.mark.parametrize("kind", START)
def test_a_worker_that_is_stopped_gives_its_job_back(
    provider: ScriptedProvider, run_jobs: RunJobs, kind: str
) -> None:
    start, state = START[kind]
    chapter, job = start()
    stop_in_the_middle(provider)
    work_on(job.pk)
    job.refresh_from_db()
    chapter.refresh_from_db()
    assert (job.status, job.error, job.attempts) == (Job.Status.QUEUED, "", 0)
    assert chapter.state == state
    STOPPING.clear()
    run_jobs()
    job.refresh_from_db()
    assert job.status == Job.Status.DONE


@pytest.mark.parametrize("error", GONE)
def test_a_model_server_that_was_stopped_first_fails_no_job(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(work, "GONE_TOGETHER_SECONDS", LONG)
    chapter, job = narrate()
    provider.enqueue(Script("Once", error=error))
    settle = work._settle

    def settle_beside_the_signal(*arguments: Any) -> None:
        threading.Thread(target=stop_working).start()
        settle(*arguments)

    monkeypatch.setattr(work, "_settle", settle_beside_the_signal)
    work_on(job.pk)
    job.refresh_from_db()
    chapter.refresh_from_db()
    assert (job.status, chapter.state) == (Job.Status.QUEUED, State.NARRATING)


@pytest.mark.parametrize("error", GONE)
def test_a_model_server_that_went_away_alone_fails_the_job(
    provider: ScriptedProvider, error: Exception
) -> None:
    chapter, job = narrate()
    provider.enqueue(error)
    work_on(job.pk)
    job.refresh_from_db()
    chapter.refresh_from_db()
    assert (job.status, chapter.state) == (Job.Status.FAILED, State.ENDED)


def test_the_lease_is_renewed_while_a_reply_is_mended(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    chapter, job = lock()
    is_renewed = threading.Event()

    def note_renewal(*arguments: Any, **options: Any) -> bool:
        is_renewed.set()
        return renew(*arguments, **options)

    def read_slowly(*arguments: Any, **options: Any) -> Any:
        is_renewed.clear()
        assert is_renewed.wait(LONG)
        return read_reply(*arguments, **options)

    monkeypatch.setattr(work, "RENEW_SECONDS", 0.0)
    monkeypatch.setattr(work, "renew", note_renewal)
    monkeypatch.setattr(json_replies, "read_reply", read_slowly)
    work_on(job.pk)
    chapter.refresh_from_db()
    assert chapter.state == State.ACTIVE


@pytest.mark.parametrize(
    ("kind", "state"),
    [("lock", State.DRAFT_TAB1), ("summarize", State.ACTIVE), ("narrate", State.ENDED)],
)
def test_an_error_of_the_program_ends_the_job_as_others_do(
    provider: ScriptedProvider,
    run_jobs: RunJobs,
    caplog: pytest.LogCaptureFixture,
    kind: str,
    state: State,
) -> None:
    chapter, job = START[kind][0]()
    calls = len(provider.history)
    provider.enqueue(_unforeseen())
    assert run_jobs() == 1
    job.refresh_from_db()
    chapter.refresh_from_db()
    assert (job.status, chapter.state) == (Job.Status.FAILED, state)
    assert job.error.startswith("The program itself failed at this (KeyError).")
    assert len(provider.history) == calls + 1
    traceback = next(one for one in caplog.records if one.levelno == logging.ERROR).getMessage()
    assert "in stream" in traceback
    assert "ValueError at" in traceback
    assert "lamp" not in caplog.text
    assert "lamp" not in job.error


def test_an_error_of_the_program_keeps_the_scenes_that_are_finished(
    provider: ScriptedProvider, run_jobs: RunJobs, small_window: None
) -> None:
    chapter = make_chapter_of_two_scenes()
    job = request_build(chapter.pk)
    provider.enqueue(words(700, "first"), _unforeseen())
    run_jobs()
    job.refresh_from_db()
    assert "One finished scene is kept: build again" in job.error
    assert job.finished_scenes == [words(700, "first")]


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
def test_a_database_that_is_away_leaves_the_job_to_its_lease(
    provider: ScriptedProvider, caplog: pytest.LogCaptureFixture, kind: type[Exception]
) -> None:
    chapter, job = narrate()
    provider.enqueue(kind("the server closed the connection: The lamp is dark."))
    work_on(job.pk)
    job.refresh_from_db()
    chapter.refresh_from_db()
    assert (job.status, job.error, chapter.state) == (Job.Status.RUNNING, "", State.NARRATING)
    assert f"the database failed: {kind.__name__}" in caplog.text
    assert "lamp" not in caplog.text


def _unforeseen() -> Exception:
    """Make an error whose message has words of the story, and whose cause has such a message
    too."""
    error = KeyError("The lamp is dark.")
    error.__cause__ = ValueError("No number: the lamp.")
    return error


def test_a_database_that_refuses_repeats_no_text_in_the_log(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_args: object, **_fields: object) -> None:
        raise IntegrityError("no\nDETAIL:  Failing row contains (7, The lamp\nis dark).")

    monkeypatch.setattr(LLMArtifact.objects, "create", refuse)
    chapter = make_active_chapter()
    job = queue_job(chapter.pk, Job.Kind.LOCK, "lock")
    work_on(job.pk)
    assert "IntegrityError" in caplog.text
    assert "lamp" not in caplog.text
    assert "dark" not in caplog.text
    job.refresh_from_db()
    assert job.status == Job.Status.RUNNING


def test_a_job_of_a_mode_that_is_not_installed_any_more_fails_alone() -> None:
    chapter = make_active_chapter()
    job = queue_job(chapter.pk, "gone.tide", "1")

    work_on(job.pk)

    job.refresh_from_db()
    assert job.status == Job.Status.FAILED
    assert "gone.tide" in job.error
