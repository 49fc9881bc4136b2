"""Tests that each turn is played once, wherever a process dies while somebody acts without a
prompt."""

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError, connection
from pytest_django import Settings

from agents.calling.tests.bookkeeping import expire
from agents.calling.tests.exploring import native as native
from agents.flows.replies.finishing import key_after
from agents.flows.replies.going_on import go_on
from agents.flows.tests.playing import play
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import Job
from agents.running import work
from agents.running.job_kinds import Watch
from agents.running.jobs import MAX_ATTEMPTS, claim, due_jobs
from agents.running.recovery import recover
from sessions.models import Attempt, Session
from sessions.play.breaking import INTERRUPTED
from storyengine.api.tests.calling import RunJobs, reply_is_running
from storyengine.tests.acting_alone import alone, job_of, jobs_of, run_as, told, watch
from storyengine.tests.lighthouse.keeper import WATCH
from storyengine.tests.playing_the_lighthouse import begin
from storyengine.tests.playing_the_lighthouse import chapter as chapter
from storyengine.tests.playing_the_lighthouse import lighthouse as lighthouse
from storyengine.tests.test_every_failure import (
    STRIDE,
    Failing,
    is_write,
    let_time_pass,
    run_due_jobs,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("native", "lighthouse")]
# Three turns make far fewer writes and commits than this number.
MOST_MOMENTS = 500


class TestDeaths:
    @pytest.fixture
    def interrupted(
        self, chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
    ) -> Job:
        """Return a job whose worker was stopped while the reply was being written."""
        provider.enqueue("One.", Script("Two is long.", gate=asyncio.Event(), gate_at=1))
        watch(chapter)
        ending = threading.Event()

        async def end_meanwhile(job: Job, seen: Watch) -> None:
            writing = asyncio.create_task(go_on(job, seen))
            await reply_is_running()
            ending.set()
            await writing

        with monkeypatch.context() as patched:
            patched.setattr(work, "STOPPING", ending)
            run_as(end_meanwhile, job_of(chapter), monkeypatch)
        attempt = alone(chapter)
        assert (attempt.error, attempt.partial_text) == (INTERRUPTED, "Two ")
        provider.queue.clear()
        provider.enqueue("Two.", "Three.", "Four.")
        return job_of(chapter)

    def test_one_whose_worker_died_is_written_again_by_the_same_writer(
        self, chapter: Session, interrupted: Job, run_jobs: RunJobs, settings: Settings
    ) -> None:
        # The test puts the rows back as if the worker had died before it could store the end of the
        # attempt.
        job, broken = claim(interrupted.pk), alone(chapter)
        assert job is not None
        Attempt.objects.filter(pk=broken.pk).update(status="running", lease_until=job.created_at)
        Session.objects.update(turn_in_flight=broken.pk)
        expire(job)
        recover()
        run_jobs()
        assert told(chapter) == [WATCH, "One.", "Two.", "Three."]
        assert chapter.attempts.count() == 3

    def test_one_that_ends_every_process_is_left_to_the_user(
        self, chapter: Session, interrupted: Job
    ) -> None:
        for _ in range(MAX_ATTEMPTS):
            claimed = claim(interrupted.pk)
            assert claimed is not None
            expire(claimed)
            recover()
        assert jobs_of(chapter) == [("failed", 1)]
        recover()
        assert not due_jobs().exists()
        assert alone(chapter).is_broken

    def test_one_that_is_broken_off_each_time_is_left_to_the_user(
        self,
        chapter: Session,
        interrupted: Job,
        run_jobs: RunJobs,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise OperationalError("disk I/O error")

        monkeypatch.setattr("agents.running.database.PAUSES", ())
        monkeypatch.setattr("agents.flows.replies.finishing.commit_attempt", refuse)
        for _ in range(MAX_ATTEMPTS):
            assert jobs_of(chapter) == [("queued", 1)]
            let_time_pass()
            run_jobs()
        assert jobs_of(chapter) == [("failed", 1)]
        let_time_pass()
        recover()
        assert alone(chapter).is_broken


@contextmanager
def dying(at: int) -> Iterator[Failing]:
    """Let the process die before its N-th write or after its N-th commit, where N is `at`. After
    its death the process stores nothing."""
    failing = Failing(at, OperationalError("the process has died"), lasts=True)
    # `_commit` is patched, because every function of Django that commits calls it.
    backend: Any = connection
    commit = backend._commit

    def commit_and_die() -> None:
        failing.pass_by(counts=False)
        commit()
        failing.pass_by()

    def execute(run: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        failing.pass_by(counts=is_write(sql))
        return run(sql, params, many, context)

    with pytest.MonkeyPatch.context() as patched, connection.execute_wrapper(execute):
        patched.setattr(backend, "_commit", commit_and_die)
        yield failing


@pytest.mark.django_db(transaction=True)
def test_wherever_a_process_dies_each_turn_is_played_once(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only every STRIDE-th write or commit is tried."""
    monkeypatch.setattr("agents.running.database.PAUSES", ())
    first = random.randint(1, STRIDE)  # noqa: S311 - no secret
    for at in range(first, MOST_MOMENTS, STRIDE):
        chapter = begin()
        with dying(at) as failing, suppress(DatabaseError):
            play(chapter, WATCH, key="k")
            run_due_jobs()
        failing.is_off = True
        before = set(chapter.attempts.filter(status="committed").values_list("pk", flat=True))
        known = provider.history[:]
        try:
            let_time_pass()
            recover()
            # The user sends the prompt again, because the engine retries no prompt of a user by
            # itself.
            play(chapter, WATCH, key="k")
            run_due_jobs()
            check(chapter, before, len(provider.history) - len(known))
        except Exception as error:
            error.add_note(f"after the death at moment {at}; the first one was {first}")
            raise
        if not failing.was_reached:
            assert failing.count > 30
            return
    raise AssertionError("The turns never came to their end.")


def check(chapter: Session, before: set[Any], calls: int) -> None:
    chapter.refresh_from_db()
    turns = list(chapter.turns.select_related("chosen"))
    assert [turn.chosen.words for turn in turns] == [WATCH, "", ""]
    assert {one.chosen for one in turns} == set(chapter.attempts.filter(status="committed"))
    assert chapter.attempts.count() == 3
    keys = [turn.chosen.submission_key for turn in turns]
    assert keys[1:] == [key_after(turn.chosen_id) for turn in turns[:2]]
    assert jobs_of(chapter) == [("done", 1), ("done", 2)]
    # No attempt that was committed before the death was written again.
    assert calls == 3 - len(before)
    assert chapter.turn_in_flight is None
