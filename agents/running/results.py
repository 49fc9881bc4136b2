"""Late results. A job works out a result beside play, and a later run takes the result as a change.

The chosen attempt at a turn asks for a result (`Job.attempt`). The result becomes a change of the
kind `Job.result_kind`. A result that can never be taken is void, and later results do not wait for
it.
"""

import logging
import uuid

from django.db.models import QuerySet
from django.utils import timezone

from agents.models import Job
from agents.running.jobs import queue_job
from sessions.limits import MAX_RESULTS_OF_A_RUN
from sessions.models import Attempt, Session
from sessions.play.played_world import LateResult, taken_before, turns_before

logger = logging.getLogger(__name__)

_ENDED_WITHOUT = (Job.Status.CANCELLED, Job.Status.FAILED)
# A page or a document shows at most this many void results, the newest first.
MOST_VOID = 20


def ask_for_result(attempt: Attempt, kind: str, result_kind: str) -> Job:
    """Queue a job of this kind that works out a result for a committed attempt.

    The job gets only the attempt as its data, so that a copy of the chapter can ask for the result
    again. If the attempt already has such a job, this job is returned. A job that was cancelled or
    failed is queued again.
    """
    assert attempt.turn is not None, "Only a committed attempt asks for a result."
    asked = Job.objects.filter(attempt=attempt, kind=kind, result_kind=result_kind).first()
    if asked is not None and asked.status not in _ENDED_WITHOUT:
        return asked
    return queue_job(
        attempt.session_id,
        kind,
        result_key(attempt.pk, result_kind),
        attempt=attempt,
        from_prompt_index=attempt.turn.number,
        to_prompt_index=attempt.turn.number,
        result_kind=result_kind,
    )


def result_key(asker: uuid.UUID, result_kind: str) -> str:
    """Return the key of the job that works out this kind of result for the attempt `asker`."""
    return f"{result_kind} {asker}"


def make_void(job_id: uuid.UUID, job: "QuerySet[Job]", reason: str) -> bool:
    """Make the late result of this job void. Return whether the queryset `job` had the row.

    `reason` tells the user why.
    """
    void = {"status": Job.Status.VOID, "error": reason, "partial_text": ""}
    is_void = bool(job.update(**void, updated_at=timezone.now()))
    if is_void:
        logger.warning("the late result %s is void", job_id)
    return is_void


def void_results(chapter: Session) -> "QuerySet[Job]":
    """Return the jobs of the void results that chosen attempts have asked for, newest first."""
    void = chapter.jobs.filter(status=Job.Status.VOID, attempt__chosen_for__isnull=False)
    return void.order_by("-updated_at")


def waiting_results(attempt: Attempt) -> list[LateResult]:
    """Return the finished results that wait for the attempt, in the order of the turns that asked
    for them.

    A result waits if the chosen attempt of an earlier turn asked for it and no chosen attempt of an
    earlier turn took it. At most MAX_RESULTS_OF_A_RUN results are returned, because a run takes no
    more.
    """
    done = Job.objects.filter(session_id=attempt.session_id, status=Job.Status.DONE)
    waiting = done.exclude(result_kind="").filter(
        attempt__in=turns_before(attempt).order_by().values("chosen")
    )
    taken = taken_before(attempt).order_by().values("result")
    ordered = waiting.exclude(pk__in=taken).order_by("to_prompt_index", "created_at", "pk")
    return [
        LateResult(job.pk, job.result_kind, job.result)
        for job in ordered[:MAX_RESULTS_OF_A_RUN]
        if job.result is not None
    ]


def settle_results(session_id: uuid.UUID) -> None:
    """Adapt late results after another attempt was chosen: cancel the queued jobs of attempts that
    are not chosen, and make void results wait again, because the changed world may take them."""
    asked = Job.objects.filter(session_id=session_id).exclude(result_kind="")
    now = timezone.now()
    waiting = asked.filter(status=Job.Status.QUEUED, attempt__chosen_for__isnull=True)
    waiting.update(status=Job.Status.CANCELLED, updated_at=now)
    worked_out = asked.filter(status=Job.Status.VOID, result__isnull=False)
    worked_out.update(status=Job.Status.DONE, error="", updated_at=now)


def ask_again_for_results(session_id: uuid.UUID) -> None:
    """Queue the cancelled and failed jobs for late results again if their attempts are chosen now.

    Without this, later results of the same kind would wait for these jobs for ever. The earlier
    runs of the jobs still count towards the limit.
    """
    ended = Job.objects.filter(session_id=session_id, status__in=_ENDED_WITHOUT)
    for job in ended.filter(attempt__chosen_for__isnull=False).exclude(result_kind=""):
        queue_job(session_id, job.kind, job.key, runs=job.attempts)
