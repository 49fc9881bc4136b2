"""Leases on running attempts. A process that does not renew its lease in time counts as dead.

Leases are measured by the clock of the database, because the clocks of several machines may differ
by more than a lease.
"""

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import DateTimeField, ExpressionWrapper, Q
from django.db.models.expressions import Combinable
from django.db.models.functions import Now
from django.utils import timezone

from sessions.models import Attempt
from sessions.text import scrub_reply

# The process of a running attempt counts as dead if it has not renewed the lease for this long.
LEASE = timedelta(seconds=12)


def from_now(pause: timedelta) -> Combinable:
    """Return an expression by which the database computes, with its own clock, the time `pause`
    from now."""
    return ExpressionWrapper(Now() + pause, output_field=DateTimeField())


def ran_out() -> Q:
    """Return a query condition that is true of rows whose lease has run out."""
    return Q(lease_until__lt=Now())


# This statement is written by hand, because it runs every second for each streamed reply. With the
# slower statement that Django builds, one process could stream about half as many replies at once
# (133 and not 250).
_STORE_TEXT = (
    f"UPDATE {Attempt._meta.db_table} SET partial_text = %s, text_run_id = %s"  # noqa: S608  (no input is part of it)
    f" WHERE {Attempt._meta.pk.column} = %s"
)


def renew_attempts(texts: Sequence[tuple[Attempt, str]]) -> set[uuid.UUID]:
    """Store the text so far of each attempt in `texts`, and renew the attempt's lease.

    Returns the run ids of the attempts that another process has broken. An empty text is not
    stored, so the text of the previous run stays.
    """
    runs = {attempt.run_id for attempt, _ in texts}
    known = Attempt.objects.filter(pk__in=[attempt.pk for attempt, _ in texts], run_id__in=runs)
    running = known.filter(status=Attempt.Status.RUNNING)
    with transaction.atomic():
        # Rows that another transaction has locked are skipped. Their leases are renewed by the next
        # call.
        free = running.select_for_update(skip_locked=True).order_by()
        renewed = set(free.values_list("pk", flat=True))
        Attempt.objects.filter(pk__in=renewed).update(
            lease_until=from_now(LEASE), updated_at=timezone.now()
        )
        _store_texts([(one, text) for one, text in texts if one.pk in renewed])
    if len(renewed) == len(texts):
        return set()
    own = known.filter(status__in=(Attempt.Status.RUNNING, Attempt.Status.COMMITTED))
    return runs.difference(own.values_list("run_id", flat=True))


def _store_texts(texts: Sequence[tuple[Attempt, str]]) -> None:
    def id_for_database(value: uuid.UUID) -> Any:
        return Attempt._meta.pk.get_db_prep_value(value, connection)

    rows = [
        (stored, id_for_database(attempt.run_id), id_for_database(attempt.pk))
        for attempt, text in texts
        if (stored := scrub_reply(text))
    ]
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(_STORE_TEXT, rows)
