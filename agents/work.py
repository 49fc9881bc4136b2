"""A worker's work on one job: claim it, keep the lease while the flow runs, settle failures."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from asgiref.sync import async_to_sync
from django.db import DatabaseError

from agents import locking, narrating, summarizing
from agents.database import in_database
from agents.exceptions import ModelNotReady
from agents.jobs import claim, postpone, renew
from agents.models import Job
from agents.providers.exceptions import ProviderError
from agents.watch import Watch
from sessions.exceptions import ChapterError

logger = logging.getLogger(__name__)

# How often the lease is renewed and the text so far is shown.
RENEW_SECONDS = 2.0
# How soon to look again whether the embedded model has become ready.
NOT_READY_SECONDS = 2.0


@dataclass(frozen=True)
class Flow:
    """How one kind of job is done, and what is to be done when it failed."""

    run: Callable[[Job, Watch], Awaitable[None]]
    give_up: Callable[[Job, Exception], None]


FLOWS: dict[str, Flow] = {
    Job.Kind.LOCK: Flow(locking.write_world_memory, locking.give_up),
    Job.Kind.SUMMARIZE: Flow(summarizing.write_memory_delta, summarizing.give_up),
    Job.Kind.NARRATE: Flow(narrating.write_chapter, narrating.give_up),
}


def work_on(job_id: uuid.UUID) -> None:
    """Do the job if it is due; a failure is settled by the job's flow, never raised."""
    job = claim(job_id)
    if job is None:
        return
    flow = FLOWS[job.kind]
    try:
        async_to_sync(_run_with_lease)(flow, job)
    except ModelNotReady as error:
        if error.is_coming:
            postpone(job, seconds=NOT_READY_SECONDS, counts=False)
        else:
            flow.give_up(job, error)
    except (ProviderError, ChapterError) as error:
        logger.warning("job %s (%s) failed: %s", job.pk, job.kind, type(error).__name__)
        flow.give_up(job, error)


async def _renew(job: Job, watch: Watch) -> bool:
    """A database that is away for a moment does not end the work; the lease may."""
    try:
        return await in_database(renew, job, partial_text=watch.text, progress=watch.progress)
    except DatabaseError as error:
        logger.warning("job %s could not be renewed: %s", job.pk, type(error).__name__)
        return True


async def _run_with_lease(flow: Flow, job: Job) -> None:
    watch = Watch()
    work = asyncio.ensure_future(flow.run(job, watch))
    try:
        while True:
            done, _ = await asyncio.wait({work}, timeout=RENEW_SECONDS)
            if done:
                return await work
            if not await _renew(job, watch):
                logger.info("job %s is no longer this worker's; its work is dropped", job.pk)
                return None
    finally:
        if not work.done():
            work.cancel()
            await asyncio.wait({work})
