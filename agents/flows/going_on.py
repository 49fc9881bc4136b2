"""An attempt that nobody asked for, whose process died, is taken up again by a job.

The sweep finds it (see agents.running.recovery). Each such attempt has one job, so that one which
ends every process is given up like any other job.
"""

import uuid
from functools import partial

from django.db import transaction

from agents.flows.replies import open_again, write_to_end
from agents.models import Job
from agents.modes import mode_of
from agents.running.database import in_database
from agents.running.job_kinds import JobKind, declare_job_kind
from agents.running.jobs import fail, finish, owned
from agents.running.watch import Watch
from sessions.breaking import ACTS_AFTER, interrupted_alone
from sessions.exceptions import ChapterError
from sessions.models import Attempt


async def go_on(job: Job, watch: Watch) -> None:
    """Write the attempt again, and have those act who act after it; unless the user was faster."""
    if found := await in_database(_find, job):
        attempt, turns_alone = found
        try:
            await write_to_end(partial(open_again, attempt), turns_alone=turns_alone)
        except ChapterError:
            # The user has retried, kept or set it aside, or the chapter ends.
            if await in_database(lambda: owned(job).exists() and _find(job) is not None):
                raise
    await in_database(finish, job)


def give_up(job: Job, error: Exception) -> None:
    """Leave the attempt to the user, as one that failed."""
    fail(job, str(error), cause=error)


@transaction.atomic
def _find(job: Job) -> tuple[Attempt, int] | None:
    """The job's attempt with the turns that were played alone until then, this one included; None
    where it waits no more."""
    attempt = interrupted_alone().select_related("session").filter(jobs=job).first()
    if attempt is None:
        return None
    most, turns = mode_of(attempt.session).most_turns_alone, 1
    before = _attempt_before(attempt)
    while before is not None and before.submission_key.startswith(ACTS_AFTER) and turns < most:
        turns, before = turns + 1, _attempt_before(before)
    return attempt, turns


def _attempt_before(attempt: Attempt) -> Attempt | None:
    """The attempt after which this one acts."""
    try:
        before = uuid.UUID(attempt.submission_key.removeprefix(ACTS_AFTER))
    except ValueError:
        return None
    return attempt.session.attempts.filter(pk=before).first()


declare_job_kind(Job.Kind.GO_ON, JobKind(run=go_on, give_up=give_up))
