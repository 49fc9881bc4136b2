import threading
from types import SimpleNamespace

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


def test_it_backs_up() -> None:
    tasks = [entry["task"] for entry in app.conf.beat_schedule.values()]
    assert tasks == ["storyengine.backups.tasks.back_up_daily"]
    app.loader.import_default_modules()
    assert set(tasks) <= set(app.tasks)
