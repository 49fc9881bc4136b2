"""Does one job in a worker: claims it, renews its lease while it runs, and settles a failure."""

import asyncio
import logging
import threading
import time
import uuid

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import Error as DatabaseError

from agents.exceptions import ModelNotReady
from agents.llm.providers.failures.call_errors import (
    ProviderError,
    ProviderUnreachable,
    StreamBroken,
)
from agents.models import Job
from agents.running.database import in_database
from agents.running.job_kinds import JobKind, Watch, job_kind
from agents.running.jobs import give_up, owned, postpone, renew
from agents.running.unforeseen import ProgramFailed, traceback_of
from agents.running.worker_places import claim_next, claim_place, leave_place
from sessions.exceptions import ChapterError
from sessions.log_lines import working_for
from sessions.storage import describe

logger = logging.getLogger(__name__)

# The seconds between two renewals of the lease. Each renewal also stores the text so far.
RENEW_SECONDS = 2.0
# The seconds within which a running job notices that its worker has to end.
NOTICE_SECONDS = 0.2
# The seconds until a job checks again whether the embedded model is ready.
NOT_READY_SECONDS = 2.0
# The seconds that a job waits before it fails because the model server is gone. If all processes
# are stopped together, the model server may end before the worker, and the job is then given back
# instead.
GONE_TOGETHER_SECONDS = 1.0

# This event is set when this worker process has to end.
STOPPING = threading.Event()


class _WorkerStopping(Exception):
    """The work stops because this worker has to end. A worker that runs later will continue it."""


class TookTooLong(ProviderError):
    """A job took longer than any real work takes, so something in it must hang."""

    def __init__(self) -> None:
        super().__init__(
            f"This took longer than {settings.LONGEST_JOB_SECONDS // 60} minutes and was ended. "
            "What was finished is kept; try again, or choose a faster model."
        )


def work_on(job_id: uuid.UUID) -> bool:
    """Do the job if it is due and this worker has a place for it. Return whether the job was done.
    If the job fails, its flow settles the failure, and no error is raised.

    If the worker has to end first, the job is queued again. Raises DatabaseError if the job could
    not be claimed.
    """
    # A worker that has to end claims no new job. The sweep of the next worker gives notice of the
    # job again.
    job = None if STOPPING.is_set() else claim_place(job_id)
    return job is not None and _work_in_place(job)


def work_on_next() -> bool:
    """Do the job that this worker should do next, as `work_on` does. Return False if there is
    none."""
    job = None if STOPPING.is_set() else claim_next()
    return job is not None and _work_in_place(job)


def _work_in_place(job: Job) -> bool:
    try:
        with working_for(request_id=job.request_id, session_id=job.session_id, job_id=job.pk):
            _work_on_claimed(job)
    finally:
        leave_place(job.pk)
    return True


def _work_on_claimed(job: Job) -> None:
    try:
        _work_on(job)
    except DatabaseError as error:
        # The sweep queues the job again when its lease has run out.
        logger.error("job %s: the database failed: %s", job.pk, describe(error))


def _work_on(job: Job) -> None:
    try:
        error = async_to_sync(_run_with_lease)(job_kind(job.kind), job)
    except _WorkerStopping:
        _give_back(job)
        return
    if isinstance(error, ProviderError | ChapterError):
        _settle(job, error)
    elif isinstance(error, Exception) and not isinstance(error, DatabaseError):
        _settle_unforeseen(job, error)
    elif error is not None:
        raise error


def _settle(job: Job, error: ProviderError | ChapterError) -> None:
    if _is_server_gone(error) and STOPPING.wait(GONE_TOGETHER_SECONDS):
        _give_back(job)
    elif isinstance(error, ModelNotReady) and error.is_coming:
        postpone(job, seconds=NOT_READY_SECONDS, counts=False)
    elif not owned(job).exists():
        _note_loss(job)
    else:
        logger.warning("job %s (%s) failed: %s", job.pk, job.kind, type(error).__name__)
        give_up(job, error)


def _settle_unforeseen(job: Job, error: Exception) -> None:
    if STOPPING.is_set():
        # While a process ends, any error may happen, so the job is given back and does not fail.
        _give_back(job)
        return
    if owned(job).exists():
        logger.error(
            "job %s (%s) met an error of the program:\n%s", job.pk, job.kind, traceback_of(error)
        )
    _settle(job, ProgramFailed(error))


def _is_server_gone(error: Exception) -> bool:
    if isinstance(error, ModelNotReady):
        return not error.is_coming
    return isinstance(error, ProviderUnreachable | StreamBroken)


def _give_back(job: Job) -> None:
    if postpone(job, seconds=0, counts=False):
        logger.info("job %s (%s) is queued again: the worker is being stopped", job.pk, job.kind)


def _note_loss(job: Job) -> None:
    """Log that the job no longer belongs to this worker. This is not a failure: the job was
    cancelled, replaced, or deleted with its chapter."""
    logger.info("job %s is no longer this worker's; its work is dropped", job.pk)


async def _renew(job: Job, watch: Watch) -> bool:
    """Renew the lease. Returns whether the work may be continued.

    The work is continued even if the database cannot be reached, because this may last only a
    moment.
    """
    try:
        return await in_database(renew, job, partial_text=watch.text, progress=watch.progress)
    except DatabaseError as error:
        logger.warning("job %s could not be renewed: %s", job.pk, describe(error))
        return True


async def _run_with_lease(kind: JobKind, job: Job) -> BaseException | None:
    """Run the flow, and return the error that it raised, or None.

    Raises CancelledError if the work was cancelled, and _WorkerStopping if the worker has to end.
    """
    watch = Watch()
    work = asyncio.ensure_future(kind.run(job, watch))
    started = renewed = time.monotonic()
    try:
        while True:
            done, _ = await asyncio.wait({work}, timeout=NOTICE_SECONDS)
            if done:
                return work.exception()
            if STOPPING.is_set():
                raise _WorkerStopping
            if time.monotonic() - started > settings.LONGEST_JOB_SECONDS:
                return TookTooLong()
            if time.monotonic() - renewed < RENEW_SECONDS:
                continue
            renewed = time.monotonic()
            if not await _renew(job, watch):
                _note_loss(job)
                return None
    finally:
        if not work.done():
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
