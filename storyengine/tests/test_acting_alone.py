"""Tests of turns in which somebody acts without a prompt.

Each such turn is played by a job that the commit of the turn before has stored. The turn is never
lost and never played twice.
"""

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError, connection
from kombu.exceptions import OperationalError as BrokerError
from pytest_django import Settings

from agents.calling.tests.bookkeeping import expire, make_due
from agents.calling.tests.exploring import native as native
from agents.flows.choosing import edit_reply
from agents.flows.committing import key_after
from agents.flows.going_on import go_on
from agents.flows.replies import keep_reply, stop_reply
from agents.flows.tests.playing import play, reroll
from agents.models import Job
from agents.modes import who_answers
from agents.providers.exceptions import ProviderTimeout
from agents.providers.scripted import Script, ScriptedProvider
from agents.running import job_kinds, work
from agents.running.job_kinds import job_kind
from agents.running.jobs import MAX_ATTEMPTS, claim, due_jobs, queue_job
from agents.running.recovery import recover
from agents.running.watch import Watch
from agents.sweeping import sweep
from agents.tests.second_mode import install
from sessions.attempts import open_prompt
from sessions.breaking import INTERRUPTED, stop_attempt
from sessions.models import Attempt, Session
from storyengine.api.tests.calling import RunJobs, reply_is_running
from storyengine.exchange.forking import fork_chapter
from storyengine.tests.lighthouse.keeper import WATCH
from storyengine.tests.lighthouse.mode import MODE
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
# Three turns take far fewer writes and commits than this number.
MOST_MOMENTS = 500


def watch(chapter: Session, slot: int = 1) -> Attempt:
    """Send the prompt after which the keepers act in turn, and return the attempt that answers
    it."""
    attempt = play(chapter, WATCH, slot=slot, key="k")
    assert attempt.status == Attempt.Status.COMMITTED
    return attempt


def told(chapter: Session) -> list[str]:
    return [event.text for event in chapter.events.all()]


def jobs_of(chapter: Session) -> list[tuple[str, int]]:
    """Return the status of each job in which somebody acts, with the number of the turn before."""
    jobs = chapter.jobs.filter(kind=Job.Kind.GO_ON).order_by("created_at")
    return list(jobs.values_list("status", "attempt__turn__number"))


def job_of(chapter: Session) -> Job:
    return chapter.jobs.filter(kind=Job.Kind.GO_ON).latest("created_at")


def alone(chapter: Session) -> Attempt:
    """Return the latest attempt without a prompt."""
    return chapter.attempts.filter(words="").latest("submitted_at")


@pytest.mark.django_db(transaction=True)
def test_they_go_on_by_themselves_as_often_as_the_mode_says(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs, noticed: list[str]
) -> None:
    provider.enqueue("One.", "Two.", "Three.", "Four.")
    watch(chapter)
    assert jobs_of(chapter) == [("queued", 1)]
    assert noticed == [str(job_of(chapter).pk)]
    assert told(chapter) == [WATCH, "One."]
    assert run_jobs() == 2
    assert [event.agent_slot for event in chapter.events.all()] == [None, 1, 2, 1]
    assert told(chapter) == [WATCH, "One.", "Two.", "Three."]
    assert jobs_of(chapter) == [("done", 1), ("done", 2)]


def test_whoever_is_not_to_act_waits(chapter: Session, provider: ScriptedProvider) -> None:
    provider.enqueue("One.")
    play(chapter, "Go on.")
    assert not chapter.jobs.exists()


def test_the_row_comes_with_the_commit_or_not_at_all(
    chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    def queue_and_fail(*args: Any, **fields: Any) -> None:
        assert queue_job(*args, **fields).status == Job.Status.QUEUED
        raise OperationalError("disk I/O error")

    monkeypatch.setattr("agents.running.database.PAUSES", ())
    monkeypatch.setattr("agents.flows.committing.queue_job", queue_and_fail)
    provider.enqueue("One.")
    attempt = play(chapter, WATCH, key="k")
    assert (attempt.is_running, attempt.turn) == (True, None)
    assert not chapter.jobs.exists()


@pytest.mark.django_db(transaction=True)
def test_without_a_broker_the_sweep_gives_notice(
    chapter: Session,
    provider: ScriptedProvider,
    monkeypatch: pytest.MonkeyPatch,
    noticed: list[str],
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BrokerError("no broker")

    provider.enqueue("One.")
    with monkeypatch.context() as patched:
        patched.setattr("agents.running.jobs.current_app.send_task", refuse)
        watch(chapter)
    assert noticed == []
    assert sweep()
    assert noticed == [str(job_of(chapter).pk)]


def test_two_notices_are_one_turn(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    provider.enqueue("One.", "Two.", "Three.")
    watch(chapter)
    first = job_of(chapter)
    run_jobs()
    work.work_on(first.pk)
    # The job is queued again, as if its end had not been stored. Its attempt is committed and stays
    # as it is.
    Job.objects.filter(pk=first.pk).update(status=Job.Status.QUEUED)
    assert run_jobs() == 1
    assert told(chapter) == [WATCH, "One.", "Two.", "Three."]
    assert len(provider.history) == 3


def test_an_error_of_the_mode_costs_no_reply(
    provider: ScriptedProvider,
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    words = "The lamp is dark."

    def fail(_chapter: Session) -> None:
        raise KeyError(words)

    install(monkeypatch, settings, lighthouse=replace(MODE, acts_next=fail))
    chapter = begin()
    provider.enqueue("One.")
    attempt = watch(chapter)
    assert f"who acts after attempt {attempt.pk} met an error of the program" in caplog.text
    assert words not in caplog.text
    assert not chapter.jobs.exists()


class TestEnds:
    def test_a_stop_ends_it(
        self, chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gate = asyncio.Event()
        provider.enqueue("One.", Script("Two is long.", gate=gate, gate_at=1), "Three.")
        watch(chapter, 2)

        async def stop_meanwhile(job: Job, seen: Watch) -> None:
            writing = asyncio.create_task(go_on(job, seen))
            await reply_is_running()
            await stop_reply(chapter.pk)
            await writing

        run_as(stop_meanwhile, job_of(chapter), monkeypatch)
        attempt = alone(chapter)
        assert (attempt.status, attempt.actor) == (Attempt.Status.STOPPED, 1)
        assert jobs_of(chapter) == [("done", 1)]
        # A stopped attempt without a prompt can be retried too, and the keepers go on from there.
        provider.queue.clear()
        provider.enqueue("Two.")
        retried = play(chapter, "", slot=1, key=attempt.submission_key)
        assert (retried.pk, retried.status) == (attempt.pk, Attempt.Status.COMMITTED)
        assert jobs_of(chapter) == [("done", 1), ("queued", 2)]

    def test_a_failure_ends_it(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue("One.", ProviderTimeout("Too slow."), "Two.")
        watch(chapter)
        assert run_jobs() == 1
        assert alone(chapter).status == Attempt.Status.FAILED
        assert jobs_of(chapter) == [("done", 1)]
        recover()
        assert run_jobs() == 0

    def test_a_kept_text_ends_it(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue("One.", Script("Two is", error=ProviderTimeout("Too slow.")))
        watch(chapter)
        run_jobs()
        keep_reply(chapter.pk)
        assert told(chapter) == [WATCH, "One.", "Two is"]
        assert jobs_of(chapter) == [("done", 1)]

    def test_another_attempt_goes_on_anew_and_nobody_follows_the_earlier_one(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue("One.", "Otherwise.", "Two.", "Three.", "Four.")
        watch(chapter)
        assert reroll(chapter).status == Attempt.Status.COMMITTED
        assert jobs_of(chapter) == [("queued", 1), ("queued", 1)]
        run_jobs()
        assert chapter.prompt_index == 1
        chapter.refresh_from_db()
        assert (chapter.prompt_index, len(provider.history)) == (3, 4)

    def test_an_edited_reply_is_the_users(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue("One.", "Two.")
        watch(chapter)
        edit_reply(chapter.pk, 1, "By hand.")
        run_jobs()
        assert jobs_of(chapter) == [("done", 1)]
        assert len(provider.history) == 1

    def test_where_the_user_is_faster_nobody_acts(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue("One.", "Two.", "Three.")
        watch(chapter)
        own = open_prompt(chapter.pk, actor=1, words="Enough.", submission_key="own").attempt
        run_jobs()
        assert jobs_of(chapter) == [("done", 1)]
        assert stop_attempt(own)
        assert run_jobs() == 0
        assert len(provider.history) == 1

    def test_a_fork_waits_for_its_user(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue("One.", "Two.", "Three.")
        watch(chapter)
        fork = fork_chapter(chapter.pk, 1)
        run_jobs()
        fork.refresh_from_db()
        assert fork.prompt_index == 1


def run_as(run: Any, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work on the job with other code for jobs of its kind."""
    kind = replace(job_kind(Job.Kind.GO_ON), run=run)
    with monkeypatch.context() as patched:
        patched.setitem(job_kinds._declared, Job.Kind.GO_ON, kind)
        work.work_on(job.pk)


class TestDeaths:
    @pytest.fixture
    def interrupted(
        self, chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
    ) -> Job:
        """Return a job whose worker was told to end while the reply was being written."""
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

    def test_a_worker_that_ends_gives_it_back_with_its_words(
        self, chapter: Session, interrupted: Job, run_jobs: RunJobs
    ) -> None:
        assert (interrupted.status, interrupted.attempts) == (Job.Status.QUEUED, 0)
        broken = alone(chapter)
        run_jobs()
        assert told(chapter) == [WATCH, "One.", "Two.", "Three."]
        assert chapter.turns.get(number=2).chosen == broken

    def test_one_whose_worker_died_is_written_again_by_the_same_writer(
        self, chapter: Session, interrupted: Job, run_jobs: RunJobs, settings: Settings
    ) -> None:
        # The worker died before it could store the end of the attempt.
        job, broken = claim(interrupted.pk), alone(chapter)
        assert job is not None
        Attempt.objects.filter(pk=broken.pk).update(status="running", lease_until=job.created_at)
        Session.objects.update(turn_in_flight=broken.pk)
        expire(job)
        recover()
        run_jobs()
        assert told(chapter) == [WATCH, "One.", "Two.", "Three."]
        assert chapter.attempts.count() == 3

    def test_where_the_user_goes_on_first_nobody_acts(
        self, chapter: Session, interrupted: Job, run_jobs: RunJobs
    ) -> None:
        play(chapter, "Enough.")
        run_jobs()
        assert told(chapter) == [WATCH, "One.", "Enough.", "Two."]
        assert jobs_of(chapter) == [("done", 1)]
        assert chapter.attempts.get(words="").status == Attempt.Status.SET_ASIDE

    def test_while_another_process_still_writes_it_the_job_waits(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs, interrupted: Job
    ) -> None:
        key = alone(chapter).submission_key
        running = open_prompt(
            chapter.pk, actor=2, words="", submission_key=key, answers=who_answers
        )
        assert run_jobs() == 1
        interrupted.refresh_from_db()
        assert interrupted.status == Job.Status.QUEUED
        assert not due_jobs().exists()
        assert stop_attempt(running.attempt)
        make_due(interrupted)
        run_jobs()
        assert jobs_of(chapter) == [("done", 1)]
        assert told(chapter) == [WATCH, "One."]

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
        monkeypatch.setattr("agents.flows.committing.commit_attempt", refuse)
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
    """Let the process die before its N-th write or after its N-th commit. It stores nothing
    afterwards."""
    failing = Failing(at, OperationalError("the process has died"), lasts=True)
    # The process dies at the commit itself, whichever function of Django commits.
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
    """Only every STRIDE-th moment is tried, as in test_every_failure."""
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
            # The user sends the prompt again, because the engine does not retry a user's prompt by
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
    # The attempts that were committed before the death are not written again.
    assert calls == 3 - len(before)
    assert chapter.turn_in_flight is None
