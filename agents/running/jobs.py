"""Stores jobs as rows. A worker claims a job by a conditional UPDATE, keeps it by a lease, and
finishes it once.

The broker only gives notice of a job (see agents.running.notices).
"""

import logging
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from agents.exceptions import ModelNotReady
from agents.llm.providers.failures.call_errors import (
    ProviderBusy,
    ProviderError,
    ProviderRefused,
    ProviderUnreachable,
)
from agents.models import Job
from agents.running.job_kinds import job_kind
from agents.running.notices import give_notice
from agents.running.unforeseen import ProgramFailed
from sessions import counts
from sessions.exceptions import ChapterError
from sessions.leases import from_now, ran_out
from sessions.log_lines import current_ids, note_after_commit
from sessions.models import Session, Turn

logger = logging.getLogger(__name__)

# The lease of a worker on its job. The worker renews the lease every two seconds, and counts as
# dead if it has not renewed the lease for this time.
JOB_LEASE = timedelta(seconds=20)
# A job is given up after this many runs in which its worker died.
MAX_ATTEMPTS = 6
# The errors that mean that no model answered. For a job with a late result they do not count as
# runs, because they say nothing about the work itself.
_UNANSWERED = (ChapterError, ModelNotReady, ProviderUnreachable, ProviderRefused, ProviderBusy)


def queue_job(
    session_id: uuid.UUID,
    kind: str,
    key: str,
    *,
    queue: str = "",
    notice_after: float = 0,
    runs: int = 0,
    **fields: Any,
) -> Job:
    """Store a job that is due at once, and return it. If there is already a job with this kind and
    key, queue this job again, unless it is running.

    `queue` is the class of the job, if it is not the class of its kind. `runs` is the number of
    earlier runs that count towards the limit when a job is queued again. Notice is given after
    `notice_after` seconds, unless a sweep gives it earlier.
    """
    request_id = current_ids().get("request_id", "")
    queue = queue or job_kind(kind).queue
    created = {"queue": queue, "run_after": Now(), "request_id": request_id, **fields}
    job, is_new = Job.objects.get_or_create(
        session_id=session_id, kind=kind, key=key, defaults=created
    )
    if is_new:
        # The database has stored the time by its own clock. This value is close to the stored time
        # and needs no query.
        job.run_after = job.created_at
    else:
        Job.objects.filter(pk=job.pk).exclude(status=Job.Status.RUNNING).update(
            status=Job.Status.QUEUED,
            queue=queue,
            run_after=Now(),
            attempts=runs,
            error="",
            server_said="",
            refusal="",
            failure="",
            partial_text="",
            request_id=request_id,
            updated_at=timezone.now(),
        )
        job.refresh_from_db()
    give_notice(job, delay_seconds=notice_after)
    return job


def claim(job_id: uuid.UUID, *, queues: Collection[str] = Job.Queue.values) -> Job | None:
    """Claim a due job. Returns None if the job is not due, if it has to wait for other jobs, or if
    `queues` does not have its class."""
    token = uuid.uuid4()
    now = timezone.now()
    claimed = (
        due_jobs()
        .filter(pk=job_id, queue__in=queues)
        .update(
            status=Job.Status.RUNNING,
            lease_token=token,
            lease_until=from_now(JOB_LEASE),
            attempts=F("attempts") + 1,
            updated_at=now,
        )
    )
    if not claimed:
        return None
    job = Job.objects.get(pk=job_id, lease_token=token)
    waited = now - job.run_after
    _note(job, "claimed", attempt=job.attempts, waited_ms=waited // timedelta(milliseconds=1))
    return job


def due_jobs() -> "QuerySet[Job]":
    """Return the queued jobs that may run now.

    A summary may run only if it starts right after the summary pointer, so that stretches are
    written in order, and only while the attempt at its last turn is chosen. The jobs of a deleted
    chapter wait until it is brought back. A job with a late result may run only while the attempt
    that asked for it is chosen. It also has to wait while a job with the same kind of result from
    an earlier turn is queued, running or failed.
    """
    its_turn = Session.objects.filter(
        pk=OuterRef("session_id"),
        last_summarized_prompt_index=OuterRef("from_prompt_index") - 1,
        turns__chosen=OuterRef("attempt_id"),
    )
    is_asked_for = Turn.objects.filter(chosen=OuterRef("attempt_id"))
    earlier = Job.objects.filter(
        session=OuterRef("session_id"),
        result_kind=OuterRef("result_kind"),
        to_prompt_index__lt=OuterRef("to_prompt_index"),
        attempt__chosen_for__isnull=False,
        status__in=(Job.Status.QUEUED, Job.Status.RUNNING, Job.Status.FAILED),
    )
    # The conditions on the job itself must not be in a subquery. If a claim has waited for another
    # claim, PostgreSQL checks only the conditions outside of subqueries again.
    return Job.objects.filter(
        ~Q(kind=Job.Kind.SUMMARIZE) | Exists(its_turn),
        has_chapter(),
        Q(result_kind="") | (Exists(is_asked_for) & ~Exists(earlier)),
        status=Job.Status.QUEUED,
        # One millisecond is added, because SQLite's clock counts only whole milliseconds.
        run_after__lte=from_now(timedelta(milliseconds=1)),
    )


def has_chapter() -> Exists:
    """Return the condition that the job's chapter is not deleted."""
    return Exists(Session.objects.filter(pk=OuterRef("session_id")))


def owned(job: Job) -> "QuerySet[Job]":
    """Return a queryset with the job's row. The queryset is empty if this worker may no longer
    write the row, or if the chapter was deleted. Such a job neither ends nor fails: if the chapter
    is brought back, the job is queued again, and finds the chapter in the state that it expects.

    The caller updates the row by this queryset, and checks the number of changed rows.
    """
    return Job.objects.filter(
        has_chapter(), pk=job.pk, status=Job.Status.RUNNING, lease_token=job.lease_token
    )


def renew(job: Job, *, partial_text: str, progress: dict[str, int]) -> bool:
    """Renew the lease and store the progress. Returns False if the worker has lost the job."""
    return bool(
        owned(job).update(
            lease_until=from_now(JOB_LEASE),
            partial_text=partial_text,
            progress=progress,
            updated_at=timezone.now(),
        )
    )


def finish(job: Job, **changes: Any) -> bool:
    """Mark the job done. Call this function in the transaction that stores the job's result.

    Returns False if the job no longer belongs to this worker. The caller must not store the result
    then.
    """
    is_done = bool(
        owned(job).update(
            status=Job.Status.DONE,
            error="",
            server_said="",
            refusal="",
            failure="",
            partial_text="",
            updated_at=timezone.now(),
            **changes,
        )
    )
    if is_done:
        _note(job, "done", ms=_milliseconds_of(job))
    return is_done


def fail(job: Job, error: str, *, cause: Exception | None = None) -> bool:
    """Mark the job failed. The finished parts of the job are kept for the next try.

    `error` tells the GM what `cause` means for the chapter. A job with a late result becomes void
    instead if `cause` is an error of the program, or after MAX_ATTEMPTS runs. For such a job, a run
    in which no model answered does not count.
    """
    counted = job.attempts - bool(job.result_kind and isinstance(cause, _UNANSWERED))
    is_void = job.result_kind and (isinstance(cause, ProgramFailed) or counted >= MAX_ATTEMPTS)
    has_failed = bool(
        owned(job).update(
            status=Job.Status.VOID if is_void else Job.Status.FAILED,
            error=error,
            server_said=_said_of(cause),
            refusal=_refusal(cause),
            failure=_kind_of(cause),
            attempts=counted,
            updated_at=timezone.now(),
        )
    )
    if has_failed:
        _note(job, "failed", _kind_of(cause), ms=_milliseconds_of(job))
    return has_failed


def give_up(job: Job, error: Exception) -> None:
    """Settle the failure of a job in the way of its kind."""
    if settle := job_kind(job.kind).give_up:
        settle(job, error)
    else:
        fail(job, str(error), cause=error)


def postpone(
    job: Job,
    *,
    seconds: float,
    error: str = "",
    cause: Exception | None = None,
    counts: bool = True,
) -> bool:
    """Queue the job again for later. `counts` says whether this run counts towards the limit."""
    postponed = owned(job).update(
        status=Job.Status.QUEUED,
        run_after=from_now(timedelta(seconds=seconds)),
        error=error,
        server_said=_said_of(cause),
        refusal=_refusal(cause),
        failure=_kind_of(cause),
        attempts=F("attempts") if counts else F("attempts") - 1,
        updated_at=timezone.now(),
    )
    if postponed:
        give_notice(job, delay_seconds=seconds)
        outcome = "postponed" if counts else "given back"
        _note(job, outcome, _kind_of(cause), seconds=seconds, ms=_milliseconds_of(job))
    return bool(postponed)


def _note(job: Job, outcome: str, failure: str = "", **fields: object) -> None:
    counted = [counts.jobs.labels(job.kind, outcome)]
    if failure:
        counted.append(counts.failures.labels(f"job {job.kind}", failure))
    about = {"kind": job.kind, "failure": failure}
    ids = {"session_id": job.session_id, "job_id": job.pk, "request_id": job.request_id}
    note_after_commit(logger, f"job {outcome}", *counted, **about, **fields, **ids)


def _milliseconds_of(job: Job) -> int:
    """Return the milliseconds since this worker claimed the job."""
    return (timezone.now() - job.updated_at) // timedelta(milliseconds=1)


def _kind_of(cause: Exception | None) -> str:
    return type(cause).__name__ if cause else ""


def _said_of(cause: Exception | None) -> str:
    return cause.said if isinstance(cause, ProviderError) else ""


def _refusal(cause: Exception | None) -> str:
    return cause.kind() if isinstance(cause, ChapterError) else ""


def cancel_jobs(session_id: uuid.UUID, kind: str, **which: Any) -> int:
    """Cancel queued and running jobs of this kind. The worker of a running job notices this at its
    next renewal."""
    count = Job.objects.filter(
        session_id=session_id,
        kind=kind,
        status__in=(Job.Status.QUEUED, Job.Status.RUNNING),
        **which,
    ).update(status=Job.Status.CANCELLED, updated_at=timezone.now())
    if count:
        cancelled = counts.jobs.labels(kind, "cancelled")
        note_after_commit(logger, "job cancelled", cancelled, kind=kind, session_id=session_id)
    return count


@dataclass(frozen=True)
class Expired:
    """The jobs of dead workers: those that were queued again, and those that have run too often."""

    requeued: list[uuid.UUID]
    hopeless: list[Job]


def requeue_expired(session_id: uuid.UUID | None = None) -> Expired:
    """Queue the jobs of dead workers again, without giving notice.

    A job that has run too often is not queued again. A summary or a late result is cancelled if its
    attempt is not chosen now. The jobs of a deleted chapter are not changed until it is brought
    back. If a page asks for one chapter, somebody waits for its memory.
    """
    now = timezone.now()
    # The query has no order, so that the database uses the index of statuses.
    expired = Job.objects.filter(has_chapter(), ran_out(), status=Job.Status.RUNNING).order_by()
    if session_id is not None:
        expired = expired.filter(session_id=session_id)
    hopeless, requeued = [], []
    for job in expired:
        if job.attempts >= MAX_ATTEMPTS:
            hopeless.append(job)
            continue
        follows_choice = job.kind == Job.Kind.SUMMARIZE or job.result_kind
        is_void = follows_choice and not _is_chosen(job)
        status = Job.Status.CANCELLED if is_void else Job.Status.QUEUED
        is_waited_for = session_id is not None and job.queue == Job.Queue.MEMORY
        changes = {
            "status": status,
            "queue": Job.Queue.PERSON if is_waited_for else job.queue,
            "lease_token": None,
            "run_after": Now(),
            "updated_at": now,
        }
        if owned(job).filter(ran_out()).update(**changes) and not is_void:
            requeued.append(job.pk)
    return Expired(requeued, hopeless)


def _is_chosen(job: Job) -> bool:
    return Turn.objects.filter(chosen=job.attempt_id).exists()


def latest_jobs(chapter: Session) -> dict[str, Job]:
    """Return the newest job of each kind.

    Among summaries, an unfinished job for the next stretch counts as the newest. Summaries for
    attempts that are not chosen are left out.
    """
    jobs: dict[str, Job] = {}
    light = chapter.jobs.defer("inputs", "scenes", "finished_scenes", "finished_deltas", "result")
    # Each stretch leaves a summary job. Summaries of earlier stretches than the last one that
    # memory covers are not read, because they do not matter any more.
    covered = chapter.last_summarized_prompt_index
    recent = Q(
        kind=Job.Kind.SUMMARIZE,
        to_prompt_index__gte=covered,
        attempt__chosen_for__isnull=False,
    )
    # Each turn may also leave jobs of other kinds. Only the newest job of each kind matters.
    kinds = chapter.jobs.exclude(kind=Job.Kind.SUMMARIZE).order_by().values("kind")
    newest = Q(created_at__in=kinds.annotate(at=Max("created_at")).values("at"))
    for job in light.filter(recent | ~Q(kind=Job.Kind.SUMMARIZE) & newest).order_by("created_at"):
        earlier = jobs.get(job.kind)
        if earlier is None or _is_next_summary(job, chapter) >= _is_next_summary(earlier, chapter):
            jobs[job.kind] = job
    return jobs


def _is_next_summary(job: Job, chapter: Session) -> bool:
    is_wanted = job.status not in (Job.Status.DONE, Job.Status.CANCELLED)
    return is_wanted and job.from_prompt_index == chapter.last_summarized_prompt_index + 1
