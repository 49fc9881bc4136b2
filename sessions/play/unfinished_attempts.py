"""Finds the attempts that are in flight, broken or set aside."""

from django.utils import timezone

from sessions.exceptions import WrongState
from sessions.models import Attempt, Session


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
