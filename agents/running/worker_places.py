"""The places of a worker: how many of its threads each class of work may hold, and which due jobs
it takes next.

A job that nobody waits for never holds the last of several threads, and long writing holds at most
half of them. So a worker can always begin a job that a person waits for, unless all its threads
already hold such jobs.
"""

import sys
import threading
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from agents.models import Job
from agents.running.jobs import claim, due_jobs
from sessions.leases import from_now

# A worker looks for jobs by itself only if they have waited for this time and no person waits for
# them. The notice of a summary comes later than its row, so that a prompt which follows at once is
# answered first.
_PAUSE = timedelta(seconds=1)


@dataclass(frozen=True)
class Worker:
    """The number of threads of a worker, and the classes of work that it does."""

    threads: int = sys.maxsize
    queues: Sequence[str] = tuple(Job.Queue.values)

    def room(self, queue: str, held: Collection[str]) -> int:
        """Return how many more jobs of this class the worker may begin while its threads hold jobs
        of the classes `held`."""
        if queue not in self.queues:
            return 0
        free = self.threads - len(held)
        if queue != Job.Queue.PERSON and Job.Queue.PERSON in self.queues:
            unhurried = sum(one != Job.Queue.PERSON for one in held)
            free = min(free, max(1, self.threads - 1) - unhurried)
        if queue == Job.Queue.LONG and len(self.queues) > 1:
            long = sum(one == Job.Queue.LONG for one in held)
            free = min(free, max(1, self.threads // 2) - long)
        return max(0, free)


# The jobs that this process is working on, each with its class.
AT_WORK: dict[uuid.UUID, str] = {}
# A process that is no worker has no limits.
_own = Worker()
# This lock guards AT_WORK. It is never held during a query, because the other threads of a worker
# would wait for each other's queries.
_taking = threading.Lock()


def become_worker(worker: Worker) -> None:
    """Set the limits of this process."""
    global _own
    _own = worker


def claim_place(job_id: uuid.UUID) -> Job | None:
    """Claim a due job if this worker has a place for its class. The caller has to call
    `leave_place` at the end of the job."""
    queued = Job.objects.filter(pk=job_id, status=Job.Status.QUEUED)
    queue = queued.values_list("queue", flat=True).first()
    if queue is None or not _take_place(job_id, queue):
        return None
    job = None
    try:
        job = claim(job_id, queues=[queue])
    finally:
        if job is None:
            leave_place(job_id)
    return job


def claim_next() -> Job | None:
    """Find the job that this worker should do next, and claim it by `claim_place`."""
    tried = set[uuid.UUID]()
    # Another thread or another worker may be faster. If these tries find no job, the sweep begins
    # the jobs that are still due.
    while due := [job_id for job_id in next_due() if job_id not in tried]:
        for job_id in due:
            if job_id not in AT_WORK and (job := claim_place(job_id)):
                return job
        tried.update(due)
    return None


def _take_place(job_id: uuid.UUID, queue: str) -> bool:
    with _taking:
        is_free = job_id not in AT_WORK and _own.room(queue, _held()) > 0
        if is_free:
            AT_WORK[job_id] = queue
        return is_free


def leave_place(job_id: uuid.UUID) -> None:
    with _taking:
        del AT_WORK[job_id]


def next_due(*, most: int | None = None, after: timedelta | None = None) -> list[uuid.UUID]:
    """Return at most `most` due jobs that this worker has places for. The jobs that people wait for
    come first, and then the oldest jobs, so that jobs of memory and jobs of long writing do not
    keep each other waiting.

    The jobs have been due for at least the time `after`. Jobs that nobody waits for have been due
    for at least the pause.
    """
    held, found = _held(), list[uuid.UUID]()
    for key, queue in sorted(_candidates(held, most, after)):
        if len(found) != most and _own.room(queue, held):
            found.append(key[-1])
            held.append(queue)
    return found


def _candidates(
    held: Collection[str], most: int | None, after: timedelta | None
) -> Iterator[tuple[tuple[bool, datetime, uuid.UUID], str]]:
    """Yield the oldest due jobs of each class, as many as the class has places. Each job comes with
    the key that orders it among the jobs of all classes."""
    for queue in Job.Queue.values:
        room = _own.room(queue, held)
        room = room if most is None else min(room, most)
        if not room:
            continue
        is_unhurried = queue != Job.Queue.PERSON
        pause = after if after is not None else (_PAUSE if is_unhurried else timedelta(0))
        due = due_jobs().filter(queue=queue, run_after__lte=from_now(-pause)).order_by("run_after")
        # Another thread of this worker may be about to claim one of these jobs.
        due = due.exclude(pk__in=list(AT_WORK))
        for job_id, run_after in due.values_list("pk", "run_after")[:room]:
            yield (is_unhurried, run_after, job_id), queue


def _held() -> list[str]:
    return list(AT_WORK.values())
