"""Late results: what a job worked out beside play waits with it until a run of an attempt takes it.

A result is asked for by the attempt at a turn (`Job.attempt`), and becomes a change of the kind
`Job.result_kind`. Whether it waits, was taken or is void is seen from the chosen attempts and their
changes; see sessions.world.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from agents.models import Job
from agents.running.jobs import finish, queue_job
from sessions.models import Attempt
from sessions.world import LateResult

_ENDED_WITHOUT = (Job.Status.CANCELLED, Job.Status.FAILED)


def ask_for_result(attempt: Attempt, kind: str, result_kind: str, **fields: Any) -> Job:
    """Queue the job of this kind that works something out for a committed attempt.

    Asked for again, it is the same job, which is done once; one that was cancelled or failed is
    queued again.
    """
    assert attempt.turn is not None, "Only a committed attempt asks for a result."
    asked = Job.objects.filter(attempt=attempt, kind=kind, result_kind=result_kind).first()
    if asked is not None and asked.status not in _ENDED_WITHOUT:
        return asked
    return queue_job(
        attempt.session_id,
        kind,
        f"{result_kind} {attempt.pk}",
        attempt=attempt,
        from_prompt_index=attempt.turn.number,
        to_prompt_index=attempt.turn.number,
        result_kind=result_kind,
        **fields,
    )


def finish_with_result(job: Job, payload: Mapping[str, Any]) -> bool:
    """Mark the job done with its result, an object of JSON; False: it is another worker's."""
    return finish(job, result=dict(payload))


def finished_results(session_id: uuid.UUID) -> list[LateResult]:
    """Those that were ever finished, in the order of the turns that asked."""
    done = Job.objects.filter(session_id=session_id, status=Job.Status.DONE)
    return [
        LateResult(job.pk, job.attempt_id, job.result_kind, job.result)
        for job in done.exclude(result_kind="").order_by("to_prompt_index", "created_at", "pk")
        if job.attempt_id is not None and job.result is not None
    ]


def cancel_waiting_results(session_id: uuid.UUID) -> None:
    """Cancel the queued jobs whose asker is not chosen; one that runs may come to its end."""
    waiting = Job.objects.filter(session_id=session_id, status=Job.Status.QUEUED)
    waiting.filter(attempt__chosen_for__isnull=True).exclude(result_kind="").update(
        status=Job.Status.CANCELLED, updated_at=timezone.now()
    )


def ask_again_for_results(session_id: uuid.UUID) -> None:
    """Queue the jobs again whose asker is chosen after all, and those that failed: results of the
    same kind that were asked for later wait for them."""
    ended = Job.objects.filter(session_id=session_id, status__in=_ENDED_WITHOUT)
    for job in ended.filter(attempt__chosen_for__isnull=False).exclude(result_kind=""):
        queue_job(session_id, job.kind, job.key)
