"""Finding what dead processes left behind; safe to call by anyone, at any time."""

import uuid

from agents.jobs import due_jobs, requeue_expired, ring
from agents.providers.exceptions import ProviderUnreachable
from agents.work import FLOWS
from sessions.turns import recover_stale_turns

GIVEN_UP = ProviderUnreachable(
    "This was tried several times and the program stopped each time. Nothing was lost; try again, "
    "and look at the program's log if it happens once more."
)


def recover(session_id: uuid.UUID | None = None) -> None:
    """Fail the turns and queue the jobs whose lease ran out; of one chapter, or of all."""
    recover_stale_turns(session_id)
    for job in requeue_expired(session_id):
        FLOWS[job.kind].give_up(job, GIVEN_UP)


def ring_due_jobs() -> None:
    """Ring for every job that is due; a job rung twice is still done once."""
    for job_id in due_jobs().values_list("pk", flat=True):
        ring(job_id)
