"""Limits the model calls in a minute, to guard against endless loops and unexpected bills.

A call is counted when it is let through, by a row that all processes see. Artifacts would not do,
because they are stored when a call ends and are deleted with their chapter. Only the row of a reply
is written later, with its artifact, because the GM waits for the first word. Until then the process
that writes the reply counts it.
"""

import threading
import time
import uuid
from collections import Counter
from datetime import timedelta

from django.conf import settings
from django.db.models import Count, Q
from django.utils import timezone

from agents.exceptions import RateLimited
from agents.models import AdmittedCall

_WINDOW = timedelta(minutes=1)
_FORGOTTEN_AFTER = timedelta(minutes=5)

# Replies are let through one at a time, even while a query runs.
_letting_through = threading.Lock()
# This lock is never held during a query, because a reply ends on the event loop, which must not
# wait for the database.
_counting = threading.Lock()
# The number of replies that this process is writing, by chapter.
_replies: Counter[uuid.UUID] = Counter()
# The number of rows at this process's last count, with the rows that it has added since, and the
# time of that count.
_latest: int | None = None
_looked_at = 0.0
# If a reply ends within this time after a count, one is added to the count without a query, because
# many replies may end at the same time.
_LOOK_SECONDS = 1.0


def check_rate(session_id: uuid.UUID) -> None:
    """Raise RateLimited if a call of this chapter would not be let through now; count no call."""
    of_all, of_chapter = _count(session_id)
    _refuse_beyond_caps(session_id, of_all + 1, of_chapter + 1)


def count_call(session_id: uuid.UUID) -> None:
    """Let a call through and count it, or raise RateLimited and count none.

    The row is written before the rows are counted, so that calls at the same time count each other.
    """
    own = AdmittedCall.objects.create(session_id=session_id)
    try:
        _refuse_beyond_caps(session_id, *_count(session_id))
    except RateLimited:
        own.delete()
        raise


def let_reply_through(session_id: uuid.UUID) -> None:
    """Count a reply until `reply_is_over`, or raise RateLimited.

    No query is made while the last known number of rows is below half of the lower cap. That number
    is read when a reply ends, at most once a second.
    """
    enough = min(settings.CALLS_PER_MINUTE, settings.CHAPTER_CALLS_PER_MINUTE) // 2
    with _letting_through:
        if _latest is None or _latest + _replies.total() >= enough:
            check_rate(session_id)
        with _counting:
            _replies[session_id] += 1


def reply_is_over(session_id: uuid.UUID) -> None:
    """Stop counting a reply, however it ended."""
    with _counting:
        _replies[session_id] -= 1
        if not _replies[session_id]:
            del _replies[session_id]


def write_down_reply(session_id: uuid.UUID) -> None:
    """Write the row of a reply, which all processes see and which outlives its chapter."""
    global _latest
    AdmittedCall.objects.create(session_id=session_id)
    with _counting:
        if _latest is not None and time.monotonic() - _looked_at < _LOOK_SECONDS:
            _latest += 1
            return
    _count(session_id)


def forget_counted_calls() -> None:
    """Delete the rows that are too old for any cap."""
    AdmittedCall.objects.filter(admitted_at__lt=timezone.now() - _FORGOTTEN_AFTER).delete()


def _count(session_id: uuid.UUID) -> tuple[int, int]:
    """Count the rows of all chapters and of this one, by a query that uses an index."""
    global _latest, _looked_at
    now = timezone.now()
    # The range ends in the near future, so that rows from before a clock was set back do not count
    # long.
    recent = AdmittedCall.objects.filter(admitted_at__range=(now - _WINDOW, now + _WINDOW))
    counts = recent.aggregate(
        of_all=Count("*"), of_chapter=Count("session_id", filter=Q(session_id=session_id))
    )
    with _counting:
        _latest, _looked_at = counts["of_all"], time.monotonic()
    return counts["of_all"], counts["of_chapter"]


def _refuse_beyond_caps(session_id: uuid.UUID, of_all: int, of_chapter: int) -> None:
    """Raise RateLimited beyond a cap; replies without a row are added to the counted rows."""
    for count, limit, of_whom in (
        (of_all + _replies.total(), settings.CALLS_PER_MINUTE, ""),
        (
            of_chapter + _replies.get(session_id, 0),
            settings.CHAPTER_CALLS_PER_MINUTE,
            " of this chapter",
        ),
    ):
        if count > limit:
            raise RateLimited(
                f"More than {limit} model calls{of_whom} were made within a minute. "
                "Nothing was sent and your words are kept; try again in a minute."
            )
