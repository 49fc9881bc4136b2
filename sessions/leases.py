"""Leases on running attempts: the process that runs an attempt renews its lease, or is dead."""

import uuid
from collections.abc import Sequence
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from sessions.models import Attempt
from sessions.text import scrub_reply

# A running attempt whose process has not renewed it for so long is taken to be dead.
LEASE = timedelta(seconds=12)


def renew_attempts(texts: Sequence[tuple[Attempt, str]]) -> set[uuid.UUID]:
    """Store the text so far of each attempt, and renew its lease.

    Returns the run ids of those that somebody else has ended. A run that has brought no text yet
    leaves the text of the run before.
    """
    now = timezone.now()
    text_of = {attempt.run_id: text for attempt, text in texts}
    known = Attempt.objects.filter(pk__in=[attempt.pk for attempt, _ in texts], run_id__in=text_of)
    running = known.filter(status=Attempt.Status.RUNNING)
    with transaction.atomic():
        # The others do not wait for a row that somebody holds: it is renewed the next time.
        rows = list(
            running.select_for_update(skip_locked=True)
            .order_by()
            .only("run_id", "partial_text", "text_run_id")
        )
        for row in rows:
            if text := scrub_reply(text_of[row.run_id]):
                row.partial_text, row.text_run_id = text, row.run_id
            row.lease_until, row.updated_at = now + LEASE, now
        Attempt.objects.bulk_update(
            rows, ["partial_text", "text_run_id", "lease_until", "updated_at"]
        )
    if len(rows) == len(texts):
        return set()
    own = known.filter(status__in=(Attempt.Status.RUNNING, Attempt.Status.COMMITTED))
    return set(text_of).difference(own.values_list("run_id", flat=True))
