"""The late result that a summary brings to a mode's world (`MemoryAddition`)."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import Error as DatabaseError
from django.db import transaction

from agents.flows.remembering.late_results import why_never
from agents.models import Job
from agents.modes.registry import find_mode
from agents.prompting.memory_additions import MemoryAddition, Told
from agents.running.results import result_key
from agents.running.unforeseen import traceback_of
from sessions.models import Attempt, Session

logger = logging.getLogger(__name__)


def addition_of(chapter: Session) -> MemoryAddition | None:
    """Return the keys that the chapter's mode asks agent 8 for, beside the keys of a delta."""
    mode = find_mode(chapter.mode)
    return mode.memory.addition if mode else None


def store_brought(summary: Job, deltas: Sequence[Mapping[str, Any]]) -> None:
    """Store the added keys of this summary's deltas as a finished late result. `deltas` are the
    `finished_deltas` of the job.

    Call this function in the transaction that stores the deltas. An error of the mode is only
    logged, because it must not cost the memory.
    """
    attempt = summary.attempt
    assert attempt is not None, "A summary names the attempt at its last turn."
    addition = addition_of(attempt.session)
    if addition is None:
        return
    try:
        # The savepoint keeps the rest of the transaction if the mode's function fails.
        with transaction.atomic():
            brought = addition.brings(attempt, _told(summary, addition, deltas))
    except DatabaseError:
        raise
    except Exception as error:  # noqa: BLE001  (or the stretch could never be remembered)
        logger.error(
            "what the summary %s brings met an error of the program:\n%s",
            summary.pk,
            traceback_of(error),
        )
        return
    if brought is not None:
        _store(attempt, addition.change_kind, brought)


def _told(
    summary: Job, addition: MemoryAddition, deltas: Sequence[Mapping[str, Any]]
) -> list[Told]:
    return [
        Told(
            tuple(one["audience"]),
            summary.from_prompt_index,
            summary.to_prompt_index,
            addition.fields.model_validate(one["added"]),
        )
        for one in deltas
        # If the mode had nothing to add, the delta has no such keys.
        if "added" in one
    ]


def _store(attempt: Attempt, kind: str, payload: Mapping[str, Any]) -> None:
    """Store the result with a new job that is already done, so that the next run takes the result.
    If no run could store the result, it becomes void, and the job's `error` has the reason."""
    assert attempt.turn is not None, "A stretch ends with a committed attempt."
    reason = why_never(attempt.session, kind, payload)
    Job.objects.get_or_create(
        session_id=attempt.session_id,
        kind=Job.Kind.MEMORY_RESULT,
        key=result_key(attempt.pk, kind),
        defaults={
            "status": Job.Status.VOID if reason else Job.Status.DONE,
            "error": reason,
            "attempt": attempt,
            "from_prompt_index": attempt.turn.number,
            "to_prompt_index": attempt.turn.number,
            "result_kind": kind,
            "result": None if reason else dict(payload),
        },
    )
