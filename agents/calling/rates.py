"""Limits the model calls in a minute, as a guard against endless loops and unexpected bills.

When a call is allowed, a row is written that all processes see. Artifacts cannot be counted
instead, because they are stored only when a call ends, and are deleted with their chapter. The GM
waits for the first word of a reply, so the row of a reply is written only at the end, with its
artifact. Until then the process that writes the reply counts it in memory.
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

# While a thread holds this lock, it decides whether a reply is allowed. Other threads wait, even if
# the decision needs a query.
_letting_through = threading.Lock()
# This lock guards the counters. It is never held during a query, because the event loop takes it
# when a reply ends, and the event loop must not wait for the database.
_counting = threading.Lock()
# The number of replies that this process is writing, by chapter.
_replies: Counter[uuid.UUID] = Counter()
# The number of rows at the last count, plus the rows that this process has added since. The next
# variable is the time of the last count.
_latest: int | None = None
_looked_at = 0.0
# If a reply ends less than this many seconds after a count, its row is added to the known number
# without a query, because many replies may end at the same time.
_LOOK_SECONDS = 1.0


def check_rate(session_id: uuid.UUID) -> None:
    """Raise RateLimited if another call of this chapter would exceed a cap, without counting it."""
    of_all, of_chapter = _count(session_id)
    _refuse_beyond_caps(session_id, of_all + 1, of_chapter + 1)


def count_call(session_id: uuid.UUID) -> None:
    """Count a call. Raises RateLimited, and counts no call, if a cap is reached.

    The call's row is written before the rows are counted. So of two calls at the same time, each
    counts the other.
    """
    own = AdmittedCall.objects.create(session_id=session_id)
    try:
        _refuse_beyond_caps(session_id, *_count(session_id))
    except RateLimited:
        own.delete()
        raise


def let_reply_through(session_id: uuid.UUID) -> None:
    """Count a reply as running until `reply_is_over` is called. Raises RateLimited if a cap is
    reached.

    No query is made while the last known number of rows is below half of the lower cap. When a
    reply ends, the number is read again, but at most once a second.
    """
    enough = min(settings.CALLS_PER_MINUTE, settings.CHAPTER_CALLS_PER_MINUTE) // 2
    with _letting_through:
        if _latest is None or _latest + _replies.total() >= enough:
            check_rate(session_id)
        with _counting:
            _replies[session_id] += 1


def reply_is_over(session_id: uuid.UUID) -> None:
    """Stop counting a reply as running."""
    with _counting:
        _replies[session_id] -= 1
        if not _replies[session_id]:
            del _replies[session_id]


def write_down_reply(session_id: uuid.UUID) -> None:
    """Write the row of a reply. All processes see it, and it outlives its chapter."""
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
    """Return the number of recent rows of all chapters, and the number of this chapter's rows. The
    query reads only an index."""
    global _latest, _looked_at
    now = timezone.now()
    # The range ends shortly after now. If the clock was set back, rows may have later times, and
    # would otherwise count until those times are past.
    recent = AdmittedCall.objects.filter(admitted_at__range=(now - _WINDOW, now + _WINDOW))
    counts = recent.aggregate(
        of_all=Count("*"), of_chapter=Count("session_id", filter=Q(session_id=session_id))
    )
    with _counting:
        _latest, _looked_at = counts["of_all"], time.monotonic()
    return counts["of_all"], counts["of_chapter"]


def _refuse_beyond_caps(session_id: uuid.UUID, of_all: int, of_chapter: int) -> None:
    """Raise RateLimited if a number of calls exceeds its cap. The running replies, which have no
    rows yet, are added to both numbers."""
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
