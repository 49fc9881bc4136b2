"""The claims on running turns: renewed by the process that writes the reply, or it is dead."""

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from sessions.models import Turn
from sessions.text import scrub_reply

# A running turn whose process has not renewed it for so long is taken to be dead.
TURN_LEASE = timedelta(seconds=12)

# Written out, because for Django to do so for each of a hundred replies takes ten times as long as
# for the database to change them.
_RENEW = (
    f"UPDATE {Turn._meta.db_table} SET partial_text = %s, lease_until = %s, updated_at = %s"  # noqa: S608  (no value of anybody's)
    " WHERE turn_id = %s"
)


def renew_turns(texts: Sequence[tuple[Turn, str]]) -> set[uuid.UUID]:
    """Keep the text so far and the claim of each attempt; returns the run ids of those that others
    have ended."""
    now = timezone.now()
    attempts = Turn.objects.filter(
        pk__in=[turn.pk for turn, _ in texts], run_id__in=[turn.run_id for turn, _ in texts]
    )
    running = attempts.filter(status=Turn.Status.RUNNING)
    with transaction.atomic():
        # For a row that somebody holds the others do not wait; it has its turn the next time.
        free = running.select_for_update(skip_locked=True).order_by()
        renewed = set(free.values_list("run_id", flat=True))
        rows = [_renewal(turn, text, now) for turn, text in texts if turn.run_id in renewed]
        if rows:
            with connection.cursor() as cursor:
                cursor.executemany(_RENEW, rows)
    if len(renewed) == len(texts):
        return set()
    own = attempts.filter(status__in=(Turn.Status.RUNNING, Turn.Status.COMMITTED))
    return {turn.run_id for turn, _ in texts}.difference(own.values_list("run_id", flat=True))


def _renewal(turn: Turn, text: str, now: datetime) -> list[Any]:
    lease_until, updated_at = map(connection.ops.adapt_datetimefield_value, (now + TURN_LEASE, now))
    key = Turn._meta.pk.get_db_prep_value(turn.pk, connection)
    return [scrub_reply(text), lease_until, updated_at, key]
