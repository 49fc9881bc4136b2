"""Admits model calls: counts each call against the caps on calls in a minute, and reserves what the
call may cost.

Before a call is sent, one statement counts the rows of the last minute and adds a row for the call,
unless a cap is reached. The row also says how many tokens the call may use. They count towards the
caps on spending until the record of the call has its real tokens. All processes see the rows, so
the caps hold for all processes together. Artifacts cannot be counted instead, because they are
stored only when a call ends, and are deleted with their chapter. The rows of a process that has
crashed count for a minute as calls, and for half an hour as spending, by the clock of the database.
"""

import threading
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.db.models import Count, Q
from django.db.models.functions import Now

from agents.calling.spending import Used, check_budget, used_key
from agents.exceptions import BudgetReserved, BudgetSpent, RateLimited
from agents.models import AdmittedCall
from sessions.leases import from_now

_WINDOW = timedelta(minutes=1)
_FORGOTTEN_AFTER = timedelta(minutes=5)
# If the process of a call dies, what the call may cost is reserved for at most this time.
_RESERVED_MINUTES = 30

# This lock guards the next variable. It is never held during a query, because the event loop takes
# it when a reply ends, and the event loop must not wait for the database.
_giving_back = threading.Lock()
# The rows of calls that were not sent. The next count of this process deletes them.
_given_back: list[int] = []

# The key of PostgreSQL's lock on the rows. Any number that no other lock uses would do.
_LOCK_KEY = 5_207_600_060
# The window ends shortly after now. If the clock was set back, rows may have later times, and would
# otherwise count until those times are past.
_ADD_BELOW_CAPS = (
    "INSERT INTO {table} (session_id, provider, model, reserved_read, reserved_written,"
    " admitted_at, reserved_until) SELECT %s, %s, %s, %s, %s, {now}, {reserved_until} FROM"
    " (SELECT COUNT(*) AS of_all, COUNT(CASE WHEN session_id = %s THEN 1 END) AS of_chapter"
    " FROM {table} WHERE admitted_at BETWEEN {start} AND {end}) AS recent"
    " WHERE of_all < %s AND of_chapter < %s"
)
_SQLITE_TIME = "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW'{shift})"


# Checks the caps on spending. The function that it gets returns the tokens that are reserved.
CheckSpending = Callable[[Callable[[], Used]], None]


@dataclass(frozen=True)
class Reservation:
    """The most tokens that a call is expected to read and to write, with the server and the model
    by their names in the records of calls."""

    provider: str
    model: str
    read: int
    written: int


@dataclass
class Admission:
    """The admission of a call. `row` is the key of its row."""

    row: int
    was_sent: bool = False


def check_rate(session_id: uuid.UUID) -> None:
    """Raise RateLimited if another call of this chapter would exceed a cap, without counting it."""
    _delete_given_back()
    of_all, of_chapter = _count(session_id)
    _refuse_at_caps(of_all, of_chapter)


def admit(
    session_id: uuid.UUID, reservation: Reservation, check_spending: CheckSpending | None = None
) -> Admission:
    """Count a call, and reserve what it may cost. Only if spending is capped, this takes more than
    one statement.

    A call that was admitted before and is still being made counts with the tokens that it has
    reserved. So of several calls at once only one can exceed a cap on spending, and only by its own
    cost. `check_spending` is `check_budget` for the chapter if it is not given. Raises RateLimited,
    BudgetSpent and BudgetReserved, and counts and reserves nothing then.
    """
    _delete_given_back()
    row = _add_row(session_id, reservation)
    check = check_spending or partial(check_budget, session_id)
    try:
        check(partial(_reserved_before, session_id, row))
    except (BudgetSpent, BudgetReserved):
        AdmittedCall.objects.filter(pk=row).delete()
        raise
    except DatabaseError:
        give_back(Admission(row))
        raise
    return Admission(row)


def give_back(admission: Admission | None) -> None:
    """Note that a call is over. A call that was never sent no longer counts."""
    if admission is not None and not admission.was_sent:
        with _giving_back:
            _given_back.append(admission.row)


def end_reservation(admission: Admission | None) -> None:
    """End the reservation of a call's tokens. In the same transaction, the caller stores the tokens
    that the call has used."""
    if admission is not None:
        AdmittedCall.objects.filter(pk=admission.row).update(reserved_until=None)


def forget_counted_calls() -> None:
    """Delete the rows that are too old for any cap."""
    reserves = Q(reserved_until__gt=Now())
    AdmittedCall.objects.filter(~reserves, admitted_at__lt=from_now(-_FORGOTTEN_AFTER)).delete()


def _delete_given_back() -> None:
    if not _given_back:
        return
    with _giving_back:
        rows = list(_given_back)
        _given_back.clear()
    AdmittedCall.objects.filter(pk__in=rows).delete()


def _reserved_before(session_id: uuid.UUID, row: int) -> dict[str, Counter[str]]:
    """Return the tokens that the chapter's earlier calls have reserved, in the form of
    `used_by_model`. Earlier calls were admitted before this row. A caller that adds the tokens of
    the records of calls has to read the records afterwards, because a call ends its reservation in
    the transaction that stores its record."""
    rows = AdmittedCall.objects.filter(
        session_id=session_id, pk__lt=row, reserved_until__gt=Now()
    ).values_list("provider", "model", "reserved_read", "reserved_written")
    reserved: dict[str, Counter[str]] = {}
    for provider, model, read, written in rows:
        used = reserved.setdefault(used_key(model, provider), Counter())
        used.update(read=read, written=written)
    return reserved


def _add_row(session_id: uuid.UUID, reservation: Reservation) -> int:
    """Add the row of a call, and return its key. Raises RateLimited if a cap is reached."""
    row = _add_below_caps(session_id, reservation)
    while row is None:
        # The number of calls is read again only for the message.
        _refuse_at_caps(*_count(session_id))
        # Since the refusal, an earlier call has become too old, so that there is room again.
        row = _add_below_caps(session_id, reservation)
    return row


def _add_below_caps(session_id: uuid.UUID, reservation: Reservation) -> int | None:
    """Add the row of a call if no cap is reached, by one statement that no other process can
    interrupt. Returns the key of the row, or None."""
    field = AdmittedCall._meta.get_field("session_id")
    own = field.get_db_prep_value(session_id, connection)
    values: list[Any] = [own, reservation.provider, reservation.model]
    values += [reservation.read, reservation.written]
    values += [own, settings.CALLS_PER_MINUTE, settings.CHAPTER_CALLS_PER_MINUTE]
    table = AdmittedCall._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            # SQLite has one writer at a time.
            now, start, end, until = (
                _SQLITE_TIME.format(shift=shift and f", '{shift}'")
                for shift in ("", "-60 seconds", "+60 seconds", f"+{_RESERVED_MINUTES} minutes")
            )
            adding = _ADD_BELOW_CAPS.format(
                table=table, now=now, start=start, end=end, reserved_until=until
            )
            cursor.execute(adding, values)
            return cursor.lastrowid if cursor.rowcount == 1 else None
        # Both statements are sent at once, and are one transaction. The second one begins when the
        # lock is held, so it sees the rows of all transactions that held the lock before.
        now = "STATEMENT_TIMESTAMP()"
        minute = "INTERVAL '1 minute'"
        adding = _ADD_BELOW_CAPS.format(
            table=table,
            now=now,
            start=f"{now} - {minute}",
            end=f"{now} + {minute}",
            reserved_until=f"{now} + {_RESERVED_MINUTES} * {minute}",
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
