"""The caps on model calls in a minute: a guard against runaway loops and surprise bills.

Calls are counted when they are let through, in rows that all processes see. Their records would
come too late, when they end, and go with their chapter. Only a reply's row comes with its record,
because a GM waits for its first word: until then the process that writes it counts it.
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

# One reply at a time is let through, also while the rows are asked.
_letting_through = threading.Lock()
# Held for no query: a reply ends on the event loop, which must not wait for the database.
_counting = threading.Lock()
# Replies that are being written in this process, by chapter.
_replies: Counter[uuid.UUID] = Counter()
# What the rows came to when this process last looked, with its own since then, and when that was.
_latest: int | None = None
_looked_at = 0.0
# Replies that end sooner after a look are only added to it: a hundred at once end all the time.
_LOOK_SECONDS = 1.0


def check_rate(session_id: uuid.UUID) -> None:
    """Whether a call of this chapter would be let through now; counts none. Raises RateLimited."""
    of_all, of_chapter = _count(session_id)
    _refuse_beyond_caps(session_id, of_all + 1, of_chapter + 1)


def count_call(session_id: uuid.UUID) -> None:
    """Let a call through and count it, or raise RateLimited and count none.

    It is written before it is counted: of those that come at once none misses the others.
    """
    own = AdmittedCall.objects.create(session_id=session_id)
    try:
        _refuse_beyond_caps(session_id, *_count(session_id))
    except RateLimited:
        own.delete()
        raise


def let_reply_through(session_id: uuid.UUID) -> None:
    """Count a reply until `reply_is_over`, or raise RateLimited.

    The rows are not asked while they came to less than half of the lower cap when this process last
    looked, which it does when a reply ends, if not within the second before.
    """
    enough = min(settings.CALLS_PER_MINUTE, settings.CHAPTER_CALLS_PER_MINUTE) // 2
    with _letting_through:
        if _latest is None or _latest + _replies.total() >= enough:
            check_rate(session_id)
        with _counting:
            _replies[session_id] += 1


def reply_is_over(session_id: uuid.UUID) -> None:
    """However it ended."""
    with _counting:
        _replies[session_id] -= 1
        if not _replies[session_id]:
            del _replies[session_id]


def write_down_reply(session_id: uuid.UUID) -> None:
    """Its row, for all processes and beyond its chapter."""
    global _latest
    AdmittedCall.objects.create(session_id=session_id)
    with _counting:
        if _latest is not None and time.monotonic() - _looked_at < _LOOK_SECONDS:
            _latest += 1
            return
    _count(session_id)


def forget_counted_calls() -> None:
    """Those that no cap asks for any more."""
    AdmittedCall.objects.filter(admitted_at__lt=timezone.now() - _FORGOTTEN_AFTER).delete()


def _count(session_id: uuid.UUID) -> tuple[int, int]:
    """Rows of all chapters and of this one, in a query that an index answers."""
    global _latest, _looked_at
    now = timezone.now()
    # Not for ever what was counted before a clock was set back.
    recent = AdmittedCall.objects.filter(admitted_at__range=(now - _WINDOW, now + _WINDOW))
    counts = recent.aggregate(
        of_all=Count("*"), of_chapter=Count("session_id", filter=Q(session_id=session_id))
    )
    with _counting:
        _latest, _looked_at = counts["of_all"], time.monotonic()
    return counts["of_all"], counts["of_chapter"]


def _refuse_beyond_caps(session_id: uuid.UUID, of_all: int, of_chapter: int) -> None:
    """`of_all` and `of_chapter` are rows; what this process has not written yet comes on top."""
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
