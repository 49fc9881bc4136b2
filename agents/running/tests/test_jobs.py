"""A job is claimed once, kept by a lease, and queued again after its worker has crashed."""

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.utils import timezone
from kombu.exceptions import OperationalError

from agents.calling.tests.bookkeeping import expire
from agents.flows.beginning.locking import request_lock
from agents.flows.tests.playing import play
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from agents.running.jobs import (
    JOB_LEASE,
    MAX_ATTEMPTS,
    claim,
    due_jobs,
    finish,
    postpone,
    queue_job,
    renew,
    requeue_expired,
)
from agents.running.recovery import recover
from agents.running.work import work_on
from agents.running.worker_places import next_due
from agents.worker.sweeping import UNHEARD_AFTER, sweep
from memory.models import MemoryBlock
from sessions.models import Attempt, Session, State
from sessions.tests.factories import add_prompts, make_active_chapter, make_chapter

pytestmark = pytest.mark.django_db


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def refuse_notices(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Make the broker refuse every notice, and return the list of the refused notices."""
    asked: list[object] = []

    def refuse(*_args: object, **kwargs: object) -> None:
        asked.append(kwargs)
        raise OperationalError("no broker")

    monkeypatch.setattr("agents.running.notices.current_app.send_task", refuse)
    return asked


def test_a_job_is_queued_once_and_claimed_once(chapter: Session, noticed: list[str]) -> None:
    job = queue_job(chapter.pk, Job.Kind.NARRATE, "k")
    assert queue_job(chapter.pk, Job.Kind.NARRATE, "k") == job
    assert claim(job.pk) is not None
    assert claim(job.pk) is None


@pytest.mark.parametrize("wrong_by", [-timedelta(hours=1), timedelta(hours=1)])
def test_a_worker_whose_clock_is_wrong_takes_no_job_from_another(
    chapter: Session, monkeypatch: pytest.MonkeyPatch, wrong_by: timedelta
) -> None:
    right = timezone.now
    job = claim(queue_job(chapter.pk, Job.Kind.NARRATE, "k").pk)
    assert job is not None
    with monkeypatch.context() as there:
        there.setattr(timezone, "now", lambda: right() + wrong_by)
        assert requeue_expired().requeued == []
        assert renew(job, partial_text="", progress={})
    assert requeue_expired().requeued == []
    job.refresh_from_db()
    assert job.lease_until is not None
    assert timedelta(0) < job.lease_until - right() <= JOB_LEASE


@pytest.mark.parametrize("wrong_by", [-timedelta(hours=1), timedelta(hours=1)])
def test_a_process_whose_clock_is_wrong_neither_hurries_nor_delays_a_job(
    chapter: Session, monkeypatch: pytest.MonkeyPatch, wrong_by: timedelta
) -> None:
    right: Callable[[], datetime] = timezone.now

    def due() -> list[str]:
        return sorted(due_jobs().values_list("key", flat=True))

    def elsewhere() -> None:
        there.setattr(timezone, "now", lambda: right() + wrong_by)

    with monkeypatch.context() as there:
        elsewhere()
        for key in ("queued", "again", "later", "lost"):
            queue_job(chapter.pk, Job.Kind.NARRATE, key)
    assert due() == ["again", "later", "lost", "queued"]
    again, later, lost = (claim(Job.objects.get(key=key).pk) for key in ("again", "later", "lost"))
    assert again is not None
    assert later is not None
    assert lost is not None
    expire(lost)
    with monkeypatch.context() as there:
        elsewhere()
        assert postpone(again, seconds=0)
        assert postpone(later, seconds=600)
        assert requeue_expired().requeued == [lost.pk]
        assert due() == ["again", "lost", "queued"]
        assert next_due(after=UNHEARD_AFTER) == []
        assert len(next_due(after=timedelta(0))) == 3
    assert due() == ["again", "lost", "queued"]
    later.refresh_from_db()
    assert timedelta(seconds=500) < later.run_after - right() <= timedelta(seconds=600)


def test_a_worker_that_lost_its_lease_may_not_write(chapter: Session) -> None:
    job = claim(queue_job(chapter.pk, Job.Kind.NARRATE, "k").pk)
    assert job is not None
    expire(job)
    assert requeue_expired().hopeless == []
    other = claim(job.pk)
    assert other is not None
    assert not renew(job, partial_text="", progress={})
    assert not finish(job)
    assert finish(other)


def test_a_broker_out_of_reach_loses_nothing(
    provider: ScriptedProvider,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Callable[..., object],
) -> None:
    asked = refuse_notices(monkeypatch)
    chapter = make_chapter()
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        request_lock(chapter.pk)
        request_lock(make_chapter().pk)
    asked.clear()
    sweep()
    assert len(asked) == 1
    noticed: list[str] = []
    monkeypatch.setattr(
        "agents.running.notices.current_app.send_task",
        lambda _name, *, kwargs, **_options: noticed.append(kwargs["job_id"]),
    )
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        sweep()
    assert set(noticed) == {str(job.pk) for job in Job.objects.all()}


@pytest.mark.parametrize("of_one_chapter", [True, False])
def test_a_broker_that_hangs_is_asked_once_for_all_that_dead_workers_left(
    chapter: Session,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Callable[..., object],
    of_one_chapter: bool,
) -> None:
    for number in range(3):
        job = claim(queue_job(chapter.pk, Job.Kind.NARRATE, f"k{number}").pk)
        assert job is not None
        expire(job)
    asked = refuse_notices(monkeypatch)
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        if of_one_chapter:
            recover(chapter.pk)
        else:
            sweep()
    assert len(asked) == 1
    assert set(Job.objects.values_list("status", flat=True)) == {Job.Status.QUEUED}


def test_notice_is_given_after_the_commit(
    noticed: list[str], django_capture_on_commit_callbacks: Callable[..., object]
) -> None:
    chapter = make_chapter()
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        job = request_lock(chapter.pk)
        assert noticed == []
    assert noticed == [str(job.pk)]


def test_a_job_that_kills_its_worker_again_and_again_is_given_up(
    chapter: Session, provider: ScriptedProvider
) -> None:
    Session.objects.update(state=State.LOCKING)
    job = queue_job(chapter.pk, Job.Kind.LOCK, "lock")
    Job.objects.update(attempts=MAX_ATTEMPTS - 1)
    claimed = claim(job.pk)
    assert claimed is not None
    expire(claimed)
    recover()
    job.refresh_from_db()
    chapter.refresh_from_db()
    assert (job.status, chapter.state) == (Job.Status.FAILED, State.DRAFT_TAB1)


def test_reset_under_a_running_job_writes_nothing(
    chapter: Session, provider: ScriptedProvider
) -> None:
    add_prompts(chapter, 6)
    play(chapter)
    job = claim(Job.objects.get().pk)
    assert job is not None
    Session.objects.filter(pk=chapter.pk).delete()
    assert not renew(job, partial_text="", progress={})
    assert not finish(job)
    work_on(uuid.uuid4())
    assert not MemoryBlock.objects.exists()
    assert not Attempt.objects.exists()
