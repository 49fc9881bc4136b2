"""Late results: a job works one out beside play, and a later run takes it as a change.

The attempt at a turn asks for a result (`Job.attempt`), which becomes a change of the kind
`Job.result_kind`. The chosen attempts and their changes decide whether it waits, was taken or is
void; see sessions.world.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from agents.models import Job
from agents.running.jobs import finish, queue_job
from sessions.models import Attempt
from sessions.world import LateResult, taken_before, turns_before

_ENDED_WITHOUT = (Job.Status.CANCELLED, Job.Status.FAILED)


def ask_for_result(attempt: Attempt, kind: str, result_kind: str) -> Job:
    """Queue a job of this kind that works out a result for a committed attempt.

    The job has nothing but the attempt to go by, so that a copy of the chapter can ask again.
    Asking for the same result again, as `Mode.after_commit` does, returns the same job, and queues
    it again if it was cancelled or failed.
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
    """Return the key of the job that works out this result for the attempt, one for each kind."""
    return f"{result_kind} {asker}"


def finish_with_result(job: Job, payload: Mapping[str, Any]) -> bool:
    """Mark the job done with its result, a JSON object; False if another worker has the job now."""
    return finish(job, result=dict(payload))


def waiting_results(attempt: Attempt) -> list[LateResult]:
    """Return the finished results that wait for the attempt, in the order of the turns that asked.

    The rule is that of `sessions.world.pending_results`.
    """
    done = Job.objects.filter(session_id=attempt.session_id, status=Job.Status.DONE)
    waiting = done.exclude(result_kind="").filter(
        attempt__in=turns_before(attempt).order_by().values("chosen")
    )
    taken = taken_before(attempt).order_by().values("result")
    return [
        LateResult(job.pk, job.attempt_id, job.result_kind, job.result)
        for job in waiting.exclude(pk__in=taken).order_by("to_prompt_index", "created_at", "pk")
        if job.attempt_id is not None and job.result is not None
    ]


def cancel_waiting_results(session_id: uuid.UUID) -> None:
    """Cancel the queued jobs of attempts that are not chosen; running jobs go on."""
    waiting = Job.objects.filter(session_id=session_id, status=Job.Status.QUEUED)
    waiting.filter(attempt__chosen_for__isnull=True).exclude(result_kind="").update(
        status=Job.Status.CANCELLED, updated_at=timezone.now()
    )


def ask_again_for_results(session_id: uuid.UUID) -> None:
    """Queue the jobs again whose attempt is chosen now and that were cancelled or have failed.

    Later results of the same kind wait for them.
    """
    ended = Job.objects.filter(session_id=session_id, status__in=_ENDED_WITHOUT)
    for job in ended.filter(attempt__chosen_for__isnull=False).exclude(result_kind=""):
        queue_job(session_id, job.kind, job.key)
