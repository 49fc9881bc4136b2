"""The sweep, which one worker makes for all. It needs no broker."""

import logging
import threading
import time
import uuid
from collections.abc import Iterable
from datetime import timedelta

from django.db import Error as DatabaseError
from django.db import connection
from django.db.models import Q
from django.db.models.functions import Now

from agents.calling.admission import forget_counted_calls
from agents.calling.asking_windows import ask_servers
from agents.models import SweepLease
from agents.running.recovery import give_notice_of_due_jobs, recover
from agents.running.unforeseen import traceback_of
from agents.running.work import STOPPING, work_on, work_on_next
from agents.running.worker_places import next_due
from agents.worker.old_jobs import remove_old_jobs
from sessions.chapter.stories import remove_deleted
from sessions.leases import from_now, ran_out
from sessions.storage import describe

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 15.0
# The seconds between two looks for overlooked jobs.
LOOK_SECONDS = 3.0
# The lease of the worker that sweeps, which renews it with each sweep. If the lease was not renewed
# for this time, the next worker that asks takes over.
SWEEP_LEASE = timedelta(seconds=40)
# A job that has been due for this time counts as overlooked: its notice was lost or never given, or
# came to a worker that had no place for the job. A worker that has a place then does the job. The
# time is shorter than the pause between two sweeps, so that the jobs that a sweep has queued again
# are done before the next one.
UNHEARD_AFTER = timedelta(seconds=5)
# When a worker ends, it waits at most this many seconds for each job that its sweep has begun,
# until the job is given back.
_LETTING_GO_SECONDS = 5.0


def sweep(worker: str = "") -> bool:
    """Settle the work that dead processes left behind, give notice of due jobs, and remove chapters
    that were deleted a day ago and jobs that ended a month ago. Return False if a notice failed.

    If a worker is named, nothing is done while another worker has the lease of the sweep.
    """
    were_noticed = True
    if not worker or _has_lease(worker):
        recover()
        were_noticed = give_notice_of_due_jobs()
        forget_counted_calls()
        remove_deleted()
        remove_old_jobs()
    if not STOPPING.is_set():
        ask_servers(in_passing=True)
    return were_noticed


def _has_lease(worker: str) -> bool:
    """Take or renew the lease. A worker that is started again under the same name still has its old
    lease."""
    lease = {"holder": worker, "lease_until": from_now(SWEEP_LEASE)}
    free = SweepLease.objects.filter(ran_out() | Q(holder=worker))
    return bool(free.update(**lease)) or SweepLease.objects.get_or_create(defaults=lease)[1]


class SweepThread(threading.Thread):
    """A daemon thread that sweeps if no other worker does, and begins the jobs that no worker has
    claimed. It always ends with its process.

    The sweep is not a Celery task, because a task needs the notices that the sweep replaces. After
    a broker was killed, the connection to the broker may be dead without an error. Then the worker
    gets its jobs only from this thread.
    """

    def __init__(self, worker: str) -> None:
        super().__init__(name="Sweep", daemon=True)
        self.worker = worker
        self.is_over = threading.Event()
        self._working: list[threading.Thread] = []
        self._taking_up = threading.Lock()

    def run(self) -> None:
        # The first look only gives notice, and the next one begins the jobs that still wait.
        self._look(takes_up=False)
        swept_at = time.monotonic()
        while not self.is_over.wait(min(LOOK_SECONDS, SWEEP_SECONDS)):
            is_time = time.monotonic() - swept_at >= SWEEP_SECONDS
            self._look(sweeps=is_time)
            swept_at = time.monotonic() if is_time else swept_at
        self._let_lease_go()

    def let_go(self) -> None:
        """End the thread, and wait until the jobs that it has begun are given back."""
        self.is_over.set()
        # Taking this lock waits until a running sweep has listed all jobs that it begins. The rest
        # of the sweep is not waited for, because it may be asking a server that does not answer.
        with self._taking_up:
            working = list(self._working)
        for thread in working:
            thread.join(_LETTING_GO_SECONDS)

    def _look(self, *, takes_up: bool = True, sweeps: bool = True) -> None:
        try:
            if takes_up:
                # These jobs are begun before notices are given, because giving notices is slow when
                # the broker cannot be reached.
                self._take_up(next_due(after=UNHEARD_AFTER))
            if sweeps and not sweep(self.worker):
                # The broker cannot be reached, so no worker gets a notice, and the jobs are begun
                # at once. For the job of a dead worker the next sweep would be too late, because
                # the worker's lease and the broker's time-out have already taken half a minute.
                self._take_up(next_due(after=timedelta(0)))
        except DatabaseError as error:
            logger.warning("the sweep was cut short: %s", describe(error))
        except Exception as error:  # noqa: BLE001  (nothing would start this thread again)
            logger.error("the sweep met an error of the program:\n%s", traceback_of(error))
        finally:
            connection.close()

    def _let_lease_go(self) -> None:
        """End the lease, so that another worker sweeps at its next turn."""
        try:
            SweepLease.objects.filter(holder=self.worker).update(lease_until=Now())
        except DatabaseError as error:
            logger.warning("the lease of the sweep runs on: %s", describe(error))
        finally:
            connection.close()

    def _take_up(self, job_ids: Iterable[uuid.UUID]) -> None:
        with self._taking_up:
            if self.is_over.is_set():
                return
            self._working = [thread for thread in self._working if thread.is_alive()]
            for job_id in job_ids:
                logger.info("job %s was overlooked; this worker takes it up", job_id)
                thread = threading.Thread(target=_work, args=(job_id,), name="Unheard", daemon=True)
                thread.start()
                self._working.append(thread)


def _work(job_id: uuid.UUID) -> None:
    try:
        work_on(job_id)
        while work_on_next():
            pass
    except DatabaseError as error:
        logger.warning("job %s was not taken up: %s", job_id, describe(error))
    finally:
        connection.close()
