"""Finds attempts that are in flight, broken or set aside, and ends attempts without a result."""

import logging
import uuid

from django.db import models, transaction
from django.utils import timezone

from sessions.chapter.access import lock_chapter
from sessions.exceptions import WrongState
from sessions.language.text import scrub_reply
from sessions.leases import ran_out
from sessions.log_lines import note_attempt
from sessions.models import Attempt, Session

logger = logging.getLogger(__name__)

# The end of error messages. It says what was kept and what the user can do.
KEPT = "Your words and the text so far are kept; retry, or keep what is there."
INTERRUPTED = f"The program stopped while this reply was being written. {KEPT}"
# The name that the log gives to the failure of a reply whose process was ended with the program.
_INTERRUPTION = "Interrupted"


def pending_attempt(chapter: Session) -> Attempt | None:
    """Return the attempt in flight, or the broken attempt that waits for the user.

    A trial is never returned.
    """
    # At most one attempt matches. With an ORDER BY, SQLite would search all attempts of the
    # chapter.
    pending = chapter.attempts.filter(status__in=Attempt.PENDING, kind__in=Attempt.IN_PLAY)
    return next(iter(pending.order_by()[:1]), None)


def attempts_set_aside(chapter: Session) -> list[Attempt]:
    """Return the attempts that the user set aside, oldest first."""
    aside = chapter.attempts.filter(status=Attempt.Status.SET_ASIDE).select_related("turn")
    return list(aside.order_by("submitted_at"))


def running_attempt(chapter: Session) -> Attempt:
    attempt = pending_attempt(chapter)
    if attempt is None or not attempt.is_running:
        raise WrongState("No reply is being written.")
    return attempt


def broken_attempt(chapter: Session) -> Attempt:
    attempt = pending_attempt(chapter)
    if attempt is None or not attempt.is_broken:
        raise WrongState("There is no stopped or broken reply to keep.")
    return attempt


def set_broken_aside(chapter: Session) -> None:
    broken = chapter.attempts.filter(status__in=Attempt.BROKEN, kind__in=Attempt.IN_PLAY)
    broken.update(status=Attempt.Status.SET_ASIDE, updated_at=timezone.now())


def fail_attempt(
    attempt: Attempt,
    *,
    error: str,
    partial_text: str,
    server_said: str = "",
    kind: str = _INTERRUPTION,
) -> bool:
    """Mark the attempt as failed. The user's words and the text so far are kept, and the chapter is
    unchanged.

    `server_said` has the words of the server or the model about the failure. `kind` names the
    failure in the log. The log never has the text of `error`.
    """
    failed = Attempt.Status.FAILED
    return _break(run_of(attempt), attempt, failed, error, partial_text, kind, server_said)


@transaction.atomic
def fail_without_text(attempt: Attempt, *, error: str, kind: str) -> bool:
    """Mark the attempt as failed, and drop the text of this run, because it is no text of a story.
    The user's words are kept, and so is the text of an earlier run."""
    run_of(attempt).filter(text_run_id=attempt.run_id).update(partial_text="")
    return fail_attempt(attempt, error=error, partial_text="", kind=kind)


def stop_attempt(attempt: Attempt, *, partial_text: str = "") -> bool:
    """Stop the attempt at the user's request. If `partial_text` is empty, the stored text is
    kept."""
    return _break(run_of(attempt), attempt, Attempt.Status.STOPPED, "", partial_text)


def extend_broken_text(attempt: Attempt, partial_text: str) -> None:
    """Store the latest text of an attempt that another process has broken.

    The other process stopped the attempt for the user. Or it marked the attempt as failed, because
    this process had not renewed the lease.
    """
    if partial_text:
        broken = Attempt.objects.filter(
            pk=attempt.pk, run_id=attempt.run_id, status__in=Attempt.BROKEN
        )
        broken.update(partial_text=scrub_reply(partial_text), text_run_id=attempt.run_id)


def recover_dead_attempts(session_id: uuid.UUID | None = None) -> int:
    """Mark the attempts whose process died as failed, and return their number."""
    dead = Attempt.objects.filter(ran_out(), status=Attempt.Status.RUNNING).order_by()
    if session_id is not None:
        dead = dead.filter(session_id=session_id)
    return sum(
        _break(
            run_of(attempt).filter(ran_out()),
            attempt,
            Attempt.Status.FAILED,
            INTERRUPTED,
            "",
            _INTERRUPTION,
        )
        for attempt in dead
    )


def run_of(attempt: Attempt) -> models.QuerySet[Attempt]:
    """Return a queryset with the attempt's row. It is empty if the run of `attempt` may no longer
    write to the row."""
    return Attempt.objects.filter(
        pk=attempt.pk, run_id=attempt.run_id, status=Attempt.Status.RUNNING
    )


@transaction.atomic
def _break(
    run: models.QuerySet[Attempt],
    attempt: Attempt,
    status: Attempt.Status,
    error: str,
    partial_text: str,
    kind: str = "",
    server_said: str = "",
) -> bool:
    # An attempt in a deleted chapter ends too. Otherwise it would still be in flight when the
    # chapter is brought back.
    lock_chapter(attempt.session_id, also_deleted=True)
    changes: dict[str, object] = {
        "status": status,
        "error": error,
        "server_said": server_said,
        "updated_at": timezone.now(),
    }
    if partial_text:
        changes["partial_text"] = scrub_reply(partial_text)
        changes["text_run_id"] = attempt.run_id
    if not run.update(**changes):
        return False
    note_attempt(logger, attempt, status.value, kind)
    in_flight = Session.everything.filter(pk=attempt.session_id, turn_in_flight=attempt.pk)
    in_flight.update(turn_in_flight=None)
    return True
