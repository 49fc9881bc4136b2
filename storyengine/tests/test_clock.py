import threading
from types import SimpleNamespace

import pytest
from celery.beat import Scheduler

from storyengine.operations.celery import Clock, app


def test_every_worker_has_one_and_it_dies_with_it() -> None:
    """The clock is a daemon thread of the worker, so it ends with the worker's process."""
    assert Clock in app.steps["worker"]
    worker = SimpleNamespace(app=app)
    clock = Clock(worker)
    clock.start(worker)
    (beat,) = [thread for thread in threading.enumerate() if thread.name == "Beat"]
    assert beat.daemon
    clock.stop(worker)
    beat.join(timeout=30)
    assert not beat.is_alive()


def test_the_end_of_a_worker_does_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    is_ticking, may_end = threading.Event(), threading.Event()

    def tick(_scheduler: Scheduler) -> float:
        is_ticking.set()
        may_end.wait(30)
        return 0.0

    monkeypatch.setattr(Scheduler, "tick", tick)
    worker = SimpleNamespace(app=app)
    clock = Clock(worker)
    clock.start(worker)
    assert is_ticking.wait(30)
    clock.stop(worker)
    assert clock.beat.is_alive()
    may_end.set()
    clock.beat.join(timeout=30)


def test_it_backs_up() -> None:
    tasks = [entry["task"] for entry in app.conf.beat_schedule.values()]
    assert tasks == ["storyengine.backups.tasks.back_up_daily"]
    app.loader.import_default_modules()
    assert set(tasks) <= set(app.tasks)
