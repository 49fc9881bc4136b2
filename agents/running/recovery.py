"""Finding what dead processes left behind; safe to call by anyone, at any time."""

import logging
import uuid
from collections.abc import Mapping
from functools import partial

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from agents.models import Job
from agents.providers.exceptions import ProviderUnreachable
from agents.running.job_kinds import job_kind
from agents.running.jobs import due_jobs, give_notices_now, requeue_expired
from sessions.access import lock_chapter
from sessions.breaking import recover_dead_attempts
from sessions.importing import remove_left_behind
from sessions.log_lines import warn
from sessions.models import Attempt, Session
from sessions.states import State, try_move

logger = logging.getLogger(__name__)

GIVEN_UP = ProviderUnreachable(
    "This was tried several times and the program stopped each time. Nothing was lost; try again, "
    "and look at the program's log if it happens once more."
)


def recover(session_id: uuid.UUID | None = None) -> None:
    """Settle what was left: of one chapter, or of all.

    Attempts whose lease ran out are failed, such jobs queued again, and a chapter that waits for a
    summary that nobody will write is back in play. What is left of imports is removed.
    """
    attempts = recover_dead_attempts(session_id)
    found = requeue_expired(session_id)
    if found.requeued and session_id is not None:
        # A look through all chapters tells of all that is due (see `give_notice_of_due_jobs`).
        transaction.on_commit(partial(give_notices_now, found.requeued))
    for job in found.hopeless:
        job_kind(job.kind).give_up(job, GIVEN_UP)
    chapters = _free_from_summaries(session_id)
    counts = {
        "attempts": attempts,
        "jobs": len(found.requeued),
        "given_up": len(found.hopeless),
        "chapters": chapters,
        "imports": remove_left_behind() if session_id is None else 0,
    }
    if any(counts.values()):
        warn(logger, "sweep found", **counts)


def is_left_behind(chapter: Session, jobs: Mapping[str, Job], pending: Attempt | None) -> bool:
    """Whether `recover` may find something, by rows that were read anyway.

    It may say so once too often. Trials are left to the sweep.

    `jobs` as `latest_jobs` returns them; asks no database.
    """
    now = timezone.now()
    has_dead_job = any(
        job.status == Job.Status.RUNNING and job.lease_until is not None and job.lease_until < now
        for job in jobs.values()
    )
    summary = jobs.get(Job.Kind.SUMMARIZE)
    waits_in_vain = chapter.state == State.SUMMARIZING and not (summary and summary.is_live)
    return has_dead_job or waits_in_vain or (pending is not None and pending.has_died)


def give_notice_of_due_jobs() -> bool:
    """Give notice of every job that is due, and say whether the broker could be told of all.

    A job with two notices is still done once.
    """
    return give_notices_now(due_jobs().values_list("pk", flat=True))


def _free_from_summaries(session_id: uuid.UUID | None) -> int:
    """How many chapters waited in vain."""
    live = Job.objects.filter(
        session_id=OuterRef("pk"),
        kind=Job.Kind.SUMMARIZE,
        status__in=(Job.Status.QUEUED, Job.Status.RUNNING),
    )
    stuck = Session.objects.filter(~Exists(live), state=State.SUMMARIZING)
    if session_id is not None:
        stuck = stuck.filter(pk=session_id)
    freed = 0
    for pk in stuck.values_list("pk", flat=True):
        with transaction.atomic():
            # A job queued meanwhile shows only to a query that starts under the lock.
            lock_chapter(pk)
            freed += try_move(stuck.filter(pk=pk), State.ACTIVE, is_ending=False)
    return freed
