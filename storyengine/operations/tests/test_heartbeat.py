"""Tests that a worker stores its heartbeat and the counts for the metrics."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from celery.signals import worker_shutdown
from celery.utils.nodenames import default_nodename
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.utils import timezone

from agents.models import Job, ProcessHeartbeat
from agents.running.heartbeats import (
    is_alive,
    others_alive,
    read_counts,
    since_heartbeat_of,
    since_last_heartbeat,
    store_heartbeat,
)
from agents.running.jobs import queue_job
from sessions.tests.factories import make_active_chapter
from storyengine.operations import heartbeat
from storyengine.operations.celery import Heartbeat, app
from storyengine.operations.heartbeat import HeartbeatThread
from storyengine.operations.readiness import _ask_database
from storyengine.operations.tests.reading import Written

pytestmark = pytest.mark.django_db(transaction=True)

LONG = 30.0


@dataclass(eq=False)
class Worker:
    hostname: str
    app = app


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Return a semaphore that is released after each heartbeat.

    The pause between heartbeats is 0.01 seconds.
    """
    done = threading.Semaphore(0)
    store: Callable[..., None] = store_heartbeat

    def note(*arguments: object, **options: object) -> None:
        try:
            store(*arguments, **options)
        finally:
            done.release()

    monkeypatch.setattr(heartbeat, "store_heartbeat", note)
    monkeypatch.setattr(heartbeat, "HEARTBEAT_SECONDS", 0.01)
    return done


def test_a_worker_has_one_from_its_start_to_its_end(
    beats: threading.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "_LAST_SECONDS", LONG)
    assert Heartbeat in app.steps["worker"]
    worker = Worker("celery@here")
    step = Heartbeat(worker)
    step.start(worker)
    assert step.thread.daemon
    assert beats.acquire(timeout=LONG)
    assert beats.acquire(timeout=LONG)
    assert is_alive(since_last_heartbeat())
    row = ProcessHeartbeat.objects.get()
    assert row.name == "celery@here"
    assert "storyengine_jobs" in row.counts
    step.stop(worker)
    assert step.thread.is_alive(), "Other steps may still be stopping."
    worker_shutdown.send(sender=worker)
    assert not step.thread.is_alive()
    assert not is_alive(since_last_heartbeat())


def test_a_database_that_is_away_does_not_end_it(
    beats: threading.Semaphore, monkeypatch: pytest.MonkeyPatch, written: Written
) -> None:
    store: Callable[..., None] = vars(heartbeat)["store_heartbeat"]
    failures = iter([OperationalError("The lamp is dark.")])

    def fail_once(*arguments: object, **options: object) -> None:
        for error in failures:
            raise error
        store(*arguments, **options)

    monkeypatch.setattr(heartbeat, "store_heartbeat", fail_once)
    thread = HeartbeatThread("celery@here")
    thread.start()
    assert beats.acquire(timeout=LONG)
    thread.is_over.set()
    thread.join(timeout=LONG)
    assert ProcessHeartbeat.objects.exists()
    assert "OperationalError" in written.all
    assert "lamp" not in written.all


@pytest.mark.parametrize("days", [-2, 2])
def test_one_that_has_not_been_heard_of_for_long_is_forgotten(days: int) -> None:
    store_heartbeat("celery@gone", {})
    ProcessHeartbeat.objects.update(beat_at=timezone.now() + timedelta(days=days))
    assert not is_alive(since_last_heartbeat())
    store_heartbeat("celery@here", {})
    assert ProcessHeartbeat.objects.get().name == "celery@here"


@pytest.mark.parametrize("wrong_by", [-timedelta(hours=1), timedelta(hours=1)])
def test_a_process_whose_clock_is_wrong_is_alive_and_finds_the_others_alive(
    monkeypatch: pytest.MonkeyPatch, wrong_by: timedelta
) -> None:
    right: Callable[[], datetime] = timezone.now
    store_heartbeat("celery@here", {})
    store_heartbeat("celery@ended", {}, is_last=True)
    queue_job(make_active_chapter().pk, Job.Kind.NARRATE, "k")
    with monkeypatch.context() as there:
        there.setattr(timezone, "now", lambda: right() + wrong_by)
        store_heartbeat("celery@there", {})
        assert lives() == {"celery@here": True, "celery@there": True, "celery@ended": False}
        ready = _ask_database()
    assert lives() == {"celery@here": True, "celery@there": True, "celery@ended": False}
    assert is_alive(since_last_heartbeat())
    assert [check.name for check in ready.checks if not check.is_ok] == []


def lives() -> dict[str, bool]:
    told = {name: is_alive for name, (is_alive, _counts) in read_counts().items()}
    assert [one.name for one in others_alive()] == sorted(name for name in told if told[name])
    assert {name: is_alive(since_heartbeat_of(name)) for name in told} == told
    return told


class TestHealthOfAContainer:
    def test_its_own_worker_has_to_live(self) -> None:
        name = default_nodename("")
        with pytest.raises(CommandError, match="no sign of life"):
            call_command("worker_lives")
        store_heartbeat(name, {})
        call_command("worker_lives")
        store_heartbeat(name, {}, is_last=True)
        with pytest.raises(CommandError, match=name):
            call_command("worker_lives")
