"""The Celery application: it gives notice of jobs that are rows in the database."""

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
# It warns whoever runs as root of pickled tasks; these are JSON.
warnings.filterwarnings("ignore", category=SecurityWarning)

TRANSPORT_ALIASES["filesystem"] = "storyengine.stack.folder_broker:Transport"
TRANSPORT_ALIASES |= dict.fromkeys(("redis", "rediss"), "storyengine.stack.redis_broker:Transport")
app = Celery("storyengine")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


class Clock(bootsteps.StartStopStep):
    """Celery's beat, as a thread of every worker.

    The worker's own option starts it as a process, which outlives a worker that is killed. Two
    clocks do no harm: of two backups one is made (see storyengine.backups).
    """

    def start(self, parent: Any) -> None:
        self.beat = cast(Any, EmbeddedService(parent.app, thread=True, scheduler_cls=Scheduler))
        self.beat.start()

    def stop(self, parent: Any) -> None:
        # Not waited for: it sleeps through the rest of a second, and keeps nothing to be written.
        self.beat.service.stop()


class Sweep(bootsteps.StartStopStep):
    """Looks after what dead processes left and what got no notice (see agents.sweeping)."""

    def start(self, parent: Any) -> None:
        # Django is set up by now; it was not yet when this module was imported.
        from agents.sweeping import SweepThread

        self.thread = SweepThread(hands=parent.concurrency)
        self.thread.start()

    def stop(self, parent: Any) -> None:
        self.thread.let_go()


class Heartbeat(bootsteps.StartStopStep):
    """Tells the database that this worker lives (see storyengine.operations.heartbeat).

    Until all else of it has stopped: a restore would not wait for a job that is being ended.
    """

    def start(self, parent: Any) -> None:
        from storyengine.operations.heartbeat import HeartbeatThread

        self.thread = HeartbeatThread(parent.hostname)
        self.thread.start()
        # Sent when every step has stopped, which they do in an order that is left to chance.
        worker_shutdown.connect(self.end, sender=parent, weak=False)

    def end(self, **_signal: object) -> None:
        self.thread.end()


@worker_init.connect
def end_with_what_started_it(**_signal: object) -> None:
    end_with_parent()


@setup_logging.connect
def keep_django_s_logging(**_signal: object) -> None:
    """Celery sets no level of its own on the root logger where somebody listens to this."""


app.steps["worker"].add(Clock)
app.steps["worker"].add(Sweep)
app.steps["worker"].add(Heartbeat)
