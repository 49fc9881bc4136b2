"""The Celery application. It sends notices of jobs, which are rows in the database."""

import os
import warnings
from typing import Any, cast

from celery import Celery, bootsteps
from celery.beat import EmbeddedService, Scheduler
from celery.exceptions import SecurityWarning
from celery.signals import setup_logging, worker_init, worker_shutdown
from kombu.transport import TRANSPORT_ALIASES

from storyengine.stack.parents import end_with_parent

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
# Celery warns the user root of pickled tasks. The tasks of this program are JSON, so the warning
# does not apply.
warnings.filterwarnings("ignore", category=SecurityWarning)

TRANSPORT_ALIASES["filesystem"] = "storyengine.stack.folder_broker:Transport"
TRANSPORT_ALIASES |= dict.fromkeys(("redis", "rediss"), "storyengine.stack.redis_broker:Transport")
app = Celery("storyengine")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.autodiscover_tasks(["agents.worker"])


class Clock(bootsteps.StartStopStep):
    """Celery's clock (beat), which calls tasks at regular times, as a thread of every worker.

    Celery's own option would start beat as a process, which keeps running after the worker was
    killed. With several workers there are several clocks. They do no harm, because only one backup
    a day is made (see storyengine.backups).
    """

    def start(self, parent: Any) -> None:
        self.beat = cast(Any, EmbeddedService(parent.app, thread=True, scheduler_cls=Scheduler))
        self.beat.start()

    def stop(self, parent: Any) -> None:
        # This method does not wait for the end of the clock's thread, because the thread may be
        # sleeping for a second and has nothing to store.
        self.beat.service.stop()


class Sweep(bootsteps.StartStopStep):
    """The part of a worker that runs the sweep (see agents.worker.sweeping)."""

    def start(self, parent: Any) -> None:
        # The imports are inside this method, because Django is not set up when this module is
        # imported.
        from agents.running.worker_places import Worker, become_worker
        from agents.worker.sweeping import SweepThread

        become_worker(Worker(parent.concurrency, tuple(parent.app.amqp.queues.consume_from)))
        self.thread = SweepThread(parent.hostname)
        self.thread.start()

    def stop(self, parent: Any) -> None:
        self.thread.let_go()


class Heartbeat(bootsteps.StartStopStep):
    """The part of a worker that stores that the worker is alive (see
    storyengine.operations.heartbeat).

    It stops after all other parts. A restore may begin as soon as no worker counts as alive, and no
    job may be running then.
    """

    def start(self, parent: Any) -> None:
        from storyengine.operations.heartbeat import HeartbeatThread

        self.thread = HeartbeatThread(parent.hostname)
        self.thread.start()
        # Celery stops the parts of a worker in no defined order. It sends this signal after all
        # parts have stopped.
        worker_shutdown.connect(self.end, sender=parent, weak=False)

    def end(self, **_signal: object) -> None:
        self.thread.end()


@worker_init.connect
def end_with_what_started_it(**_signal: object) -> None:
    end_with_parent()


@setup_logging.connect
def keep_django_s_logging(**_signal: object) -> None:
    """Keep Celery from configuring the root logger. Celery does so only if this signal has no
    receiver, so this receiver need not do anything."""


app.steps["worker"].add(Clock)
app.steps["worker"].add(Sweep)
app.steps["worker"].add(Heartbeat)
