"""Jobs: queued as rows, claimed by a conditional UPDATE, kept by a lease, finished once.

The broker only gives notice. A notice after the commit may be lost; the sweep gives another.
"""

import logging
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from celery import current_app
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone
from kombu.exceptions import OperationalError

from agents.models import Job
from agents.storage import describe
from sessions.exceptions import ChapterError
from sessions.log_lines import current_ids, note_after_commit
from sessions.models import Session, Turn

logger = logging.getLogger(__name__)

# A worker renews it every two seconds; whoever has not for so long is taken to be dead.
JOB_LEASE = timedelta(seconds=20)
# A job whose worker died so often is given up.
MAX_ATTEMPTS = 6


def queue_job(
    session_id: uuid.UUID, kind: str, key: str, *, notice_after: float = 0, **fields: Any
) -> Job:
    """The job of this kind and key, due now; a finished attempt of it is queued again.

    A job that is running is left to its worker. `notice_after` is the seconds until a worker hears
    of it, unless the sweep tells it before.
    """
    request_id = current_ids().get("request_id", "")
    job, is_new = Job.objects.get_or_create(
        session_id=session_id, kind=kind, key=key, defaults={"request_id": request_id, **fields}
    )
    if not is_new:
        Job.objects.filter(pk=job.pk).exclude(status=Job.Status.RUNNING).update(
            status=Job.Status.QUEUED,
            run_after=timezone.now(),
            attempts=0,
            error="",
            refusal="",
            partial_text="",
            request_id=request_id,
            updated_at=timezone.now(),
        )
        job.refresh_from_db()
    give_notice(job.pk, delay_seconds=notice_after)
    return job


def give_notice(job_id: uuid.UUID, *, delay_seconds: float = 0) -> None:
    """Tell a worker after the commit that a job is due."""
    transaction.on_commit(partial(give_notice_now, job_id, delay_seconds=delay_seconds))


def give_notice_now(job_id: uuid.UUID, *, delay_seconds: float = 0) -> bool:
    """Whether the broker could be told."""
    try:
        # By name: the task's module imports every flow, and the flows import this module.
        current_app.send_task(
            "agents.tasks.run_job",
            kwargs={"job_id": str(job_id)},
            countdown=delay_seconds or None,
        )
    except (OperationalError, OSError) as error:
        logger.warning(
            "the broker is out of reach; the sweep will find job %s: %s",
            job_id,
            describe(error),
        )
        return False
    return True


def give_notices_now(job_ids: Iterable[uuid.UUID]) -> bool:
    """Whether the broker could be told of all of them; it is not asked again after it could not.

    One that hangs takes seconds to say so, each time.
    """
    return all(give_notice_now(job_id) for job_id in job_ids)


def claim(job_id: uuid.UUID) -> Job | None:
    """Take a due job; None when it is not due, not queued, or its turn has not come."""
    token = uuid.uuid4()
    now = timezone.now()
    claimed = (
        due_jobs()
        .filter(pk=job_id)
        .update(
            status=Job.Status.RUNNING,
            lease_token=token,
            lease_until=now + JOB_LEASE,
            attempts=F("attempts") + 1,
            updated_at=now,
        )
    )
    if not claimed:
        return None
    job = Job.objects.get(pk=job_id, lease_token=token)
    waited = now - job.run_after
    _note(job, "job claimed", attempt=job.attempts, waited_ms=waited // timedelta(milliseconds=1))
    return job


def due_jobs() -> "QuerySet[Job]":
    """Queued jobs that may run now.

    A summary may run only if it starts right after the summary pointer (so stretches are written in
    order, one at a time) and the attempt at its last turn is chosen. A job with a late result may
    run only while its asker is chosen, and once those of its kind that earlier turns asked for are
    done: one that has failed is queued again or cancelled first.
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
    # Conditions on the job itself stay outside the subquery: PostgreSQL checks them again when a
    # second claim has waited for the first.
    return Job.objects.filter(
        ~Q(kind=Job.Kind.SUMMARIZE) | Exists(its_turn),
        Q(result_kind="") | (Exists(is_asked_for) & ~Exists(earlier)),
        status=Job.Status.QUEUED,
        run_after__lte=timezone.now(),
    )


def owned(job: Job) -> "QuerySet[Job]":
    """The job's row while this worker may write for it; update it to make sure."""
    return Job.objects.filter(pk=job.pk, status=Job.Status.RUNNING, lease_token=job.lease_token)


def renew(job: Job, *, partial_text: str, progress: dict[str, int]) -> bool:
    """Keep the lease and show how far the work is; False when it is no longer this worker's."""
    now = timezone.now()
    return bool(
        owned(job).update(
            lease_until=now + JOB_LEASE,
            partial_text=partial_text,
            progress=progress,
            updated_at=now,
        )
    )


def finish(job: Job, **changes: Any) -> bool:
    """Mark the job done, inside the transaction that writes its result; False: write nothing."""
    is_done = bool(
        owned(job).update(
            status=Job.Status.DONE,
            error="",
            refusal="",
            partial_text="",
            updated_at=timezone.now(),
            **changes,
        )
    )
    if is_done:
        _note(job, "job done", ms=_milliseconds_of(job))
    return is_done


def fail(job: Job, error: str, *, cause: Exception | None = None) -> bool:
    """Give the job up; what it has finished stays for a later resumption.

    `error` tells the GM what `cause` means for the chapter.
    """
    has_failed = bool(
        owned(job).update(
            status=Job.Status.FAILED,
            error=error,
            refusal=_refusal(cause),
            updated_at=timezone.now(),
        )
    )
    if has_failed:
        _note(job, "job failed", failure=_kind_of(cause), ms=_milliseconds_of(job))
    return has_failed


def postpone(
    job: Job,
    *,
    seconds: float,
    error: str = "",
    cause: Exception | None = None,
    counts: bool = True,
) -> bool:
    """Queue the job again for later; `counts` says whether this attempt counts."""
    now = timezone.now()
    postponed = owned(job).update(
        status=Job.Status.QUEUED,
        run_after=now + timedelta(seconds=seconds),
        error=error,
        refusal=_refusal(cause),
        attempts=F("attempts") if counts else F("attempts") - 1,
        updated_at=now,
    )
    if postponed:
        give_notice(job.pk, delay_seconds=seconds)
        event = "job postponed" if counts else "job given back"
        _note(job, event, failure=_kind_of(cause), seconds=seconds, ms=_milliseconds_of(job))
    return bool(postponed)


def _note(job: Job, event: str, **fields: object) -> None:
    ids = {"session_id": job.session_id, "job_id": job.pk, "request_id": job.request_id}
    note_after_commit(logger, event, kind=job.kind, **fields, **ids)


def _milliseconds_of(job: Job) -> int:
    """Since it was claimed."""
    return (timezone.now() - job.updated_at) // timedelta(milliseconds=1)


def _kind_of(cause: Exception | None) -> str:
    return type(cause).__name__ if cause else ""


def _refusal(cause: Exception | None) -> str:
    return cause.kind() if isinstance(cause, ChapterError) else ""


def cancel_jobs(session_id: uuid.UUID, kind: str, **which: Any) -> int:
    """Cancel what is queued or running; its worker notices when it renews the lease."""
    count = Job.objects.filter(
        session_id=session_id,
        kind=kind,
        status__in=(Job.Status.QUEUED, Job.Status.RUNNING),
        **which,
    ).update(status=Job.Status.CANCELLED, updated_at=timezone.now())
    if count:
        note_after_commit(logger, "job cancelled", kind=kind, session_id=session_id)
    return count


@dataclass(frozen=True)
class Expired:
    """Jobs whose workers died: which are queued again, and which were tried too often."""

    requeued: list[uuid.UUID]
    hopeless: list[Job]


def requeue_expired(session_id: uuid.UUID | None = None) -> Expired:
    """Queue the jobs of dead workers again, unless they were tried too often; gives no notice.

    What works for an attempt that is not chosen now is cancelled, as what waits for one is.
    """
    now = timezone.now()
    expired = Job.objects.filter(status=Job.Status.RUNNING, lease_until__lt=now)
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
        changes = {"status": status, "lease_token": None, "run_after": now, "updated_at": now}
        if owned(job).filter(lease_until__lt=now).update(**changes) and not is_void:
            requeued.append(job.pk)
    return Expired(requeued, hopeless)


def _is_chosen(job: Job) -> bool:
    return Turn.objects.filter(chosen=job.attempt_id).exists()


def latest_jobs(chapter: Session) -> dict[str, Job]:
    """The newest job of each kind; of the summaries, the one of the next stretch if there is one.

    Summaries of attempts that are not chosen are left out.
    """
    jobs: dict[str, Job] = {}
    light = chapter.jobs.defer("inputs", "scenes", "finished_scenes", "finished_deltas", "result")
    # Every seventh prompt leaves a summary: those before the last written one say nothing any more.
    covered = chapter.last_summarized_prompt_index
    recent = Q(
        kind=Job.Kind.SUMMARIZE,
        to_prompt_index__gte=covered,
        attempt__chosen_for__isnull=False,
    )
    for job in light.filter(recent | ~Q(kind=Job.Kind.SUMMARIZE)).order_by("created_at"):
        earlier = jobs.get(job.kind)
        if earlier is None or _is_next_summary(job, chapter) >= _is_next_summary(earlier, chapter):
            jobs[job.kind] = job
    return jobs


def _is_next_summary(job: Job, chapter: Session) -> bool:
    is_wanted = job.status not in (Job.Status.DONE, Job.Status.CANCELLED)
    return is_wanted and job.from_prompt_index == chapter.last_summarized_prompt_index + 1
