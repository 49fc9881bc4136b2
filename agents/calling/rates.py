"""The caps on model calls in a minute: a guard against runaway loops and surprise bills.

Calls are counted when they are let through, in rows that all processes see. Their records would
come too late, when they end, and go with their chapter.
"""

import uuid
from datetime import timedelta

from django.conf import settings
from django.db.models import Count, Q
from django.utils import timezone

from agents.exceptions import RateLimited
from agents.models import AdmittedCall

_WINDOW = timedelta(minutes=1)
_FORGOTTEN_AFTER = timedelta(minutes=5)


def check_rate(session_id: uuid.UUID) -> None:
    """Whether a call of this chapter would be let through now; counts none. Raises RateLimited."""
    of_all, of_chapter = _count(session_id)
    _refuse_beyond_caps(of_all + 1, of_chapter + 1)


def count_call(session_id: uuid.UUID) -> None:
    """Let a call through and count it, or raise RateLimited and count none.

    It is written before it is counted: of those that come at once none misses the others. Only
    transactions that PostgreSQL has open at once do not see each other's rows; they are as many as
    a process has threads for its database.
    """
    own = AdmittedCall.objects.create(session_id=session_id)
    try:
        _refuse_beyond_caps(*_count(session_id))
    except RateLimited:
        own.delete()
        raise


def forget_counted_calls() -> None:
    """Those that no cap asks for any more."""
    AdmittedCall.objects.filter(admitted_at__lt=timezone.now() - _FORGOTTEN_AFTER).delete()


def _count(session_id: uuid.UUID) -> tuple[int, int]:
    """Of all chapters and of this one, in a query that an index answers."""
    now = timezone.now()
    # Not for ever what was counted before a clock was set back.
    recent = AdmittedCall.objects.filter(admitted_at__range=(now - _WINDOW, now + _WINDOW))
    counts = recent.aggregate(
        of_all=Count("*"), of_chapter=Count("session_id", filter=Q(session_id=session_id))
    )
    return counts["of_all"], counts["of_chapter"]


def _refuse_beyond_caps(of_all: int, of_chapter: int) -> None:
    for count, limit, of_whom in (
        (of_all, settings.CALLS_PER_MINUTE, ""),
        (of_chapter, settings.CHAPTER_CALLS_PER_MINUTE, " of this chapter"),
    ):
        if count > limit:
            raise RateLimited(
                f"More than {limit} model calls{of_whom} were made within a minute. "
                "Nothing was sent and your words are kept; try again in a minute."
            )
