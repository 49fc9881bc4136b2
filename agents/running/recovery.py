"""Finds and settles work that dead processes left behind. Any process may do this."""

import logging
import uuid
from collections.abc import Mapping
from functools import partial

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from agents.llm.providers.failures.call_errors import ProviderError
from agents.models import Job
from agents.running.heartbeats import count_living_workers
from agents.running.jobs import due_jobs, give_up, requeue_expired
from agents.running.notices import count_notices, give_notices_now
from sessions import counts
from sessions.chapter.access import lock_chapter
from sessions.chapter.states import try_move
from sessions.chapter.storing_imports import remove_left_behind
from sessions.log_lines import warn
from sessions.models import Attempt, Session, State
from sessions.play.breaking import recover_dead_attempts

logger = logging.getLogger(__name__)


class GivenUp(ProviderError):
    """A job has ended as many workers as it may, so it is not queued again. All its runs count."""


GIVEN_UP = GivenUp(
    "This was tried several times and the program stopped each time. Nothing was lost; try again, "
    "and look at the program's log if it happens once more."
)


def recover(session_id: uuid.UUID | None = None) -> None:
    """Settle the work that dead processes left behind in one chapter, or in all chapters.

    Attempts whose lease ran out fail, and jobs whose lease ran out are queued again. A chapter that
    waits for a summary for which there is no job returns to play. Without `session_id`, all
    chapters are settled, and unfinished imports are removed too.
    """
    attempts = recover_dead_attempts(session_id)
    found = requeue_expired(session_id)
    if found.requeued and session_id is not None:
        # Notices are needed only for a single chapter. When all chapters are settled, the sweep
        # gives notice of due jobs; see `give_notice_of_due_jobs`.
        requeued = Job.objects.filter(pk__in=found.requeued).only("queue")
        transaction.on_commit(partial(give_notices_now, requeued))
    for job in found.hopeless:
        give_up(job, GIVEN_UP)
    chapters = _free_from_summaries(session_id)
    found_counts = {
        "attempts": attempts,
        "jobs": len(found.requeued),
        "given_up": len(found.hopeless),
        "chapters": chapters,
        "imports": remove_left_behind() if session_id is None else 0,
    }
    if any(found_counts.values()):
        warn(logger, "sweep found", **found_counts)
        for what, name in (("turns", "attempts"), ("jobs", "jobs"), ("given_up", "given_up")):
            counts.sweep_findings.labels(what).inc(found_counts[name])


def is_left_behind(chapter: Session, jobs: Mapping[str, Job], pending: Attempt | None) -> bool:
    """Return whether `recover` may find something to settle.

    The function makes no query, so it may return True although there is nothing to settle. `jobs`
    come from `latest_jobs`. Trials do not count, because the sweep settles them.
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
    """Give notice of the oldest due jobs of each class. Return whether all notices succeeded.

    No more notices wait at the broker than all workers have threads, because a worker that ends a
    job finds the next one itself. If the broker does not say how many notices wait, one more is
    sent. A job that gets two notices is still done only once.
    """
    most = max(1, count_living_workers()) * settings.CELERY_WORKER_CONCURRENCY
    waiting = count_notices()
    due = due_jobs().order_by("run_after").only("queue")
    return all(
        give_notices_now(due.filter(queue=queue)[: max(0, most - waiting.get(queue, most - 1))])
        for queue in Job.Queue.values
    )


def _free_from_summaries(session_id: uuid.UUID | None) -> int:
    """Put each chapter back in play that waits for a summary although there is no job for it.
    Returns the number of these chapters."""
    live = Job.objects.filter(
        session_id=OuterRef("pk"),
        kind=Job.Kind.SUMMARIZE,
        status__in=(Job.Status.QUEUED, Job.Status.RUNNING),
    )
    # The query has no order, so that the database uses the index of states.
    stuck = Session.objects.filter(~Exists(live), state=State.SUMMARIZING).order_by()
    if session_id is not None:
        stuck = stuck.filter(pk=session_id)
    freed = 0
    for pk in stuck.values_list("pk", flat=True):
        with transaction.atomic():
            # The chapter is locked before the query, because otherwise the query would miss a job
            # that was queued while this process waited for the lock.
            lock_chapter(pk)
            freed += try_move(stuck.filter(pk=pk), State.ACTIVE, is_ending=False)
    return freed
