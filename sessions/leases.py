"""Leases on running attempts. A process that does not renew its lease in time counts as dead.

Leases are measured by the clock of the database, because the clocks of several machines may differ
by more than a lease.
"""

import uuid
from collections.abc import Sequence
from datetime import timedelta

from django.db import transaction
from django.db.models import DateTimeField, ExpressionWrapper, Q
from django.db.models.expressions import Combinable
from django.db.models.functions import Now
from django.utils import timezone

from sessions.models import Attempt
from sessions.text import scrub_reply

# The process of a running attempt counts as dead if it has not renewed the lease for this long.
LEASE = timedelta(seconds=12)


def from_now(pause: timedelta) -> Combinable:
    """Return an expression for the time `pause` from now. The database computes it with its own
    clock."""
    return ExpressionWrapper(Now() + pause, output_field=DateTimeField())


def ran_out() -> Q:
    """Return a condition for queries. It is true of a row whose lease has run out."""
    return Q(lease_until__lt=Now())


def renew_attempts(texts: Sequence[tuple[Attempt, str]]) -> set[uuid.UUID]:
    """Store the text so far of each of these attempts, and renew its lease.

    Returns the run ids of the attempts that another process has ended. While a run has no text, the
    text of the previous run stays.
    """
    text_of = {attempt.run_id: text for attempt, text in texts}
    known = Attempt.objects.filter(pk__in=[attempt.pk for attempt, _ in texts], run_id__in=text_of)
    running = known.filter(status=Attempt.Status.RUNNING)
    with transaction.atomic():
        # Rows that another transaction has locked are skipped. They are renewed the next time.
        rows = list(
            running.select_for_update(skip_locked=True)
            .order_by()
            .only("run_id", "partial_text", "text_run_id")
        )
        for row in rows:
            if text := scrub_reply(text_of[row.run_id]):
                row.partial_text, row.text_run_id = text, row.run_id
            row.lease_until, row.updated_at = from_now(LEASE), timezone.now()
        Attempt.objects.bulk_update(
            rows, ["partial_text", "text_run_id", "lease_until", "updated_at"]
        )
    if len(rows) == len(texts):
        return set()
    own = known.filter(status__in=(Attempt.Status.RUNNING, Attempt.Status.COMMITTED))
    return set(text_of).difference(own.values_list("run_id", flat=True))
