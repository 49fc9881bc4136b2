"""Limits the model calls in a minute, as a guard against endless loops and unexpected bills.

Before a call is sent, one statement counts the rows of the last minute and adds a row for the call,
unless a cap is reached. All processes see the rows, so the caps hold for all processes together.
Artifacts cannot be counted instead, because they are stored only when a call ends, and are deleted
with their chapter. The rows of a process that has crashed are too old after a minute, by the clock
of the database.
"""

import threading
import uuid
from collections import Counter
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Count, Q

from agents.exceptions import RateLimited
from agents.models import AdmittedCall
from sessions.leases import from_now

_WINDOW = timedelta(minutes=1)
_FORGOTTEN_AFTER = timedelta(minutes=5)

# This lock guards the next three variables. It is never held during a query, because the event loop
# takes it when a reply ends, and the event loop must not wait for the database.
_counting = threading.Lock()
# The number of replies that this process is writing, by chapter.
_replies: Counter[uuid.UUID] = Counter()
# The rows of replies that this process has not sent yet, by chapter.
_reserved: dict[uuid.UUID, list[int]] = {}
# The rows of replies that ended before they were sent. The next count of this process deletes them.
_given_back: list[int] = []

# The key of PostgreSQL's lock on the rows. Any number that no other lock uses would do.
_LOCK_KEY = 5_207_600_060
# The window ends shortly after now. If the clock was set back, rows may have later times, and would
# otherwise count until those times are past.
_ADD_BELOW_CAPS = (
    "INSERT INTO {table} (session_id, admitted_at) SELECT %s, {now} FROM"
    " (SELECT COUNT(*) AS of_all, COUNT(CASE WHEN session_id = %s THEN 1 END) AS of_chapter"
    " FROM {table} WHERE admitted_at BETWEEN {start} AND {end}) AS recent"
    " WHERE of_all < %s AND of_chapter < %s"
)
_SQLITE_TIME = "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW'{shift})"


def check_rate(session_id: uuid.UUID) -> None:
    """Raise RateLimited if another call of this chapter would exceed a cap, without counting it."""
    _delete_given_back()
    of_all, of_chapter = _count(session_id)
    _refuse_at_caps(of_all, of_chapter)


def count_call(session_id: uuid.UUID) -> None:
    """Count a call. Raises RateLimited, and counts no call, if a cap is reached."""
    _delete_given_back()
    _add_row(session_id)


def let_reply_through(session_id: uuid.UUID) -> None:
    """Count the call of a reply by one statement. Raises RateLimited if a cap is reached. The
    caller has to call `reply_is_over` at the end of the reply."""
    _delete_given_back()
    row = _add_row(session_id)
    with _counting:
        _replies[session_id] += 1
        _reserved.setdefault(session_id, []).append(row)


def reply_was_sent(session_id: uuid.UUID) -> None:
    """Keep the row of a reply, because its call was sent. The row outlives its chapter."""
    with _counting:
        _take_reserved(session_id)


def reply_is_over(session_id: uuid.UUID) -> None:
    """Note that a reply has ended. If its call was never sent, the call no longer counts."""
    with _counting:
        _replies[session_id] -= 1
        if len(_reserved.get(session_id, ())) > _replies[session_id]:
            _given_back.extend(_take_reserved(session_id))
        if not _replies[session_id]:
            del _replies[session_id]


def forget_counted_calls() -> None:
    """Delete the rows that are too old for any cap."""
    AdmittedCall.objects.filter(admitted_at__lt=from_now(-_FORGOTTEN_AFTER)).delete()


def _take_reserved(session_id: uuid.UUID) -> list[int]:
    """Remove one row of the chapter from `_reserved`, and return it if there was one."""
    rows = _reserved.get(session_id, [])
    taken = [rows.pop()] if rows else []
    if not rows:
        _reserved.pop(session_id, None)
    return taken


def _delete_given_back() -> None:
    if not _given_back:
        return
    with _counting:
        rows = list(_given_back)
        _given_back.clear()
    AdmittedCall.objects.filter(pk__in=rows).delete()


def _add_row(session_id: uuid.UUID) -> int:
    """Add the row of a call, and return its key. Raises RateLimited if a cap is reached."""
    row = _add_below_caps(session_id)
    while row is None:
        # The number is read again only for the message.
        _refuse_at_caps(*_count(session_id))
        # Since the refusal, an earlier call has become too old, so that there is room again.
        row = _add_below_caps(session_id)
    return row


def _add_below_caps(session_id: uuid.UUID) -> int | None:
    """Add the row of a call if no cap is reached, by one statement that no other process can
    interrupt. Returns the key of the row, or None."""
    field = AdmittedCall._meta.get_field("session_id")
    own = field.get_db_prep_value(session_id, connection)
    values: list[Any] = [own, own, settings.CALLS_PER_MINUTE, settings.CHAPTER_CALLS_PER_MINUTE]
    table = AdmittedCall._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            # SQLite has one writer at a time.
            now, start, end = (
                _SQLITE_TIME.format(shift=shift)
                for shift in ("", ", '-60 seconds'", ", '+60 seconds'")
            )
            adding = _ADD_BELOW_CAPS.format(table=table, now=now, start=start, end=end)
            cursor.execute(adding, values)
            return cursor.lastrowid if cursor.rowcount == 1 else None
        # Both statements are sent at once, and are one transaction. The second one begins when the
        # lock is held, so it sees the rows of all transactions that held the lock before.
        now = "STATEMENT_TIMESTAMP()"
        minute = "INTERVAL '60 seconds'"
        adding = _ADD_BELOW_CAPS.format(
            table=table, now=now, start=f"{now} - {minute}", end=f"{now} + {minute}"
        )
        cursor.execute(f"SELECT pg_advisory_xact_lock({_LOCK_KEY}); {adding} RETURNING id", values)
        cursor.nextset()
        found = cursor.fetchone()
        return found[0] if found else None


def _count(session_id: uuid.UUID) -> tuple[int, int]:
    """Return the number of recent rows of all chapters, and the number of this chapter's rows. The
    query reads only an index."""
    near = (from_now(-_WINDOW), from_now(_WINDOW))
    counts = AdmittedCall.objects.filter(admitted_at__range=near).aggregate(
        of_all=Count("*"), of_chapter=Count("session_id", filter=Q(session_id=session_id))
    )
    return counts["of_all"], counts["of_chapter"]


def _refuse_at_caps(of_all: int, of_chapter: int) -> None:
    """Raise RateLimited if a number of calls has reached its cap."""
    for count, limit, of_whom in (
        (of_all, settings.CALLS_PER_MINUTE, ""),
        (of_chapter, settings.CHAPTER_CALLS_PER_MINUTE, " of this chapter"),
    ):
        if count >= limit:
            raise RateLimited(
                f"More than {limit} model calls{of_whom} were made within a minute. "
                "Nothing was sent and your words are kept; try again in a minute."
            )
