"""What every worker looks after by itself, whether the broker is there or not."""

import logging
import threading
import uuid
from datetime import timedelta

from django.db import Error as DatabaseError
from django.db import connection
from django.utils import timezone

from agents.calling.asking import ask_server
from agents.calling.rates import forget_counted_calls
from agents.running.jobs import due_jobs
from agents.running.recovery import give_notice_of_due_jobs, recover
from agents.running.unforeseen import traceback_of
from agents.running.work import AT_WORK, STOPPING, work_on
from agents.storage import describe

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 15.0
# What is due for so long beside a worker with free hands got no notice, or nobody listens. Less
# than the pause between two looks: what one look queued again, with notice, is met by the next.
UNHEARD_AFTER = timedelta(seconds=10)
# How long the work of these hands may take to be given back when the worker ends.
_LETTING_GO_SECONDS = 5.0


def sweep() -> bool:
    """Find what a dead process left behind and what got no notice; whether one could be given."""
    recover()
    were_noticed = give_notice_of_due_jobs()
    forget_counted_calls()
    if not STOPPING.is_set():
        ask_server(in_passing=True)
    return were_noticed


def unheard_jobs(hands: int, *, after: timedelta = UNHEARD_AFTER) -> list[uuid.UUID]:
    """The oldest jobs that nobody takes up, as many as this worker of `hands` threads can do."""
    free = max(0, hands - len(AT_WORK))
    unheard = due_jobs().filter(run_after__lte=timezone.now() - after)
    return list(unheard.order_by("run_after").values_list("pk", flat=True)[:free])


class SweepThread(threading.Thread):
    """A daemon, which ends with its process, however that ends.

    It is no task: the notice that it stands in for would have to call it. A connection to a broker
    that was killed can be dead without anybody noticing, and then the worker works from here.
    """

    def __init__(self, hands: int) -> None:
        super().__init__(name="Sweep", daemon=True)
        self.hands = hands
        self.is_over = threading.Event()
        self._working: list[threading.Thread] = []
        self._taking_up = threading.Lock()

    def run(self) -> None:
        # First give notice of what waited for a worker: the next look takes up what nobody heard.
        self._look(takes_up=False)
        while not self.is_over.wait(SWEEP_SECONDS):
            self._look()

    def let_go(self) -> None:
        """End the thread, and wait until the jobs that it has taken up are given back."""
        self.is_over.set()
        # What a look has begun to take up is in the list then. The rest of it is not waited for: it
        # may ask a server that does not answer.
        with self._taking_up:
            working = list(self._working)
        for thread in working:
            thread.join(_LETTING_GO_SECONDS)

    def _look(self, *, takes_up: bool = True) -> None:
        try:
            if takes_up:
                # Before the rest: a broker that is away makes notices slow.
                self._take_up(unheard_jobs(self.hands))
            if not sweep():
                # Nobody can have heard. The next look would be too late for the work of a worker
                # that died: its lease and the broker's silence have taken half a minute already.
                self._take_up(unheard_jobs(self.hands, after=timedelta(0)))
        except DatabaseError as error:
            logger.warning("the sweep was cut short: %s", describe(error))
        except Exception as error:  # noqa: BLE001  (nothing would start this thread again)
            logger.error("the sweep met an error of the program:\n%s", traceback_of(error))
        finally:
            connection.close()

    def _take_up(self, job_ids: list[uuid.UUID]) -> None:
        with self._taking_up:
            if self.is_over.is_set():
                return
            self._working = [thread for thread in self._working if thread.is_alive()]
            for job_id in job_ids:
                logger.warning("nobody took notice of job %s; taken up by the sweep", job_id)
                thread = threading.Thread(target=_work, args=(job_id,), name="Unheard", daemon=True)
                thread.start()
                self._working.append(thread)


def _work(job_id: uuid.UUID) -> None:
    try:
        work_on(job_id)
    except DatabaseError as error:
        logger.warning("job %s was not taken up: %s", job_id, describe(error))
    finally:
        connection.close()
