"""Leases on running attempts. A process that does not renew its lease in time counts as dead.

Leases are measured by the clock of the database, because the clocks of several machines may differ
by more than a lease.
"""

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import (
    DateTimeField,
    DurationField,
    Exists,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
)
from django.db.models.expressions import Combinable
from django.db.models.functions import Now
from django.utils import timezone

from sessions.language.text import scrub_reply
from sessions.models import Attempt, Session

# The process of a running attempt counts as dead if it has not renewed the lease for this long.
LEASE = timedelta(seconds=12)


def from_now(pause: timedelta) -> Combinable:
    """Return an expression for the time `pause` from now, which the database computes with its own
    clock."""
    return ExpressionWrapper(Now() + pause, output_field=DateTimeField())


def age_of(moment: str) -> Combinable:
    """Return an expression for how long ago the time in the field of this name was. The database
    computes it with its own clock."""
    return ExpressionWrapper(Now() - F(moment), output_field=DurationField())


def ran_out() -> Q:
    """Return a query condition that is true of rows whose lease has run out."""
    return Q(lease_until__lt=Now())


# This statement is written by hand, because it runs every second for all streamed replies together.
# With the slower statement that Django builds, one process could stream about half as many replies
# at once on SQLite. On PostgreSQL, a reply that is being committed waits for the renewal of its
# lease, so the renewal must be one short statement rather than several.
_STORE_TEXTS = (
    f"UPDATE {Attempt._meta.db_table} SET partial_text = texts.column1,"  # noqa: S608  (no input is part of it)
    " text_run_id = texts.column2, lease_until = %s, updated_at = %s"
    f" FROM (VALUES {{rows}}) AS texts WHERE {Attempt._meta.pk.column} = texts.column3"
)


def renew_attempts(texts: Sequence[tuple[Attempt, str]]) -> set[uuid.UUID]:
    """Store the text so far of each attempt in `texts`, and renew the attempt's lease.

    Returns the run ids of the attempts that another process has broken, or whose chapter was
    deleted. An empty text is not stored, so the text of the previous run is kept.
    """
    runs = {attempt.run_id for attempt, _ in texts}
    known = Attempt.objects.filter(pk__in=[attempt.pk for attempt, _ in texts], run_id__in=runs)
    # A join would lock the chapters' rows too.
    has_chapter = Exists(Session.objects.filter(pk=OuterRef("session_id")))
    running = known.filter(has_chapter, status=Attempt.Status.RUNNING)
    with transaction.atomic():
        # Rows that another transaction has locked are skipped. Their leases are renewed by the next
        # call.
        free = running.select_for_update(skip_locked=True, no_key=True).order_by()
        ends = dict(free.annotate(end=from_now(LEASE)).values_list("pk", "end"))
        stored = [
            (one, stored) for one, text in texts if one.pk in ends and (stored := scrub_reply(text))
        ]
        if stored:
            _store_texts(stored, lease_until=ends[stored[0][0].pk])
        if silent := ends.keys() - {one.pk for one, _ in stored}:
            Attempt.objects.filter(pk__in=silent).update(
                lease_until=from_now(LEASE), updated_at=timezone.now()
            )
    if len(ends) == len(texts):
        return set()
    is_running = Q(has_chapter, status=Attempt.Status.RUNNING)
    own = known.filter(is_running | Q(status=Attempt.Status.COMMITTED))
    return runs.difference(own.values_list("run_id", flat=True))


def _store_texts(texts: Sequence[tuple[Attempt, str]], *, lease_until: datetime) -> None:
    def id_for_database(value: uuid.UUID) -> Any:
        return Attempt._meta.pk.get_db_prep_value(value, connection)

    times = map(connection.ops.adapt_datetimefield_value, (lease_until, timezone.now()))
    values = [
        value
        for attempt, text in texts
        for value in (text, id_for_database(attempt.run_id), id_for_database(attempt.pk))
    ]
    rows = ", ".join(["(%s, %s, %s)"] * len(texts))
    with connection.cursor() as cursor:
        cursor.execute(_STORE_TEXTS.format(rows=rows), [*times, *values])
