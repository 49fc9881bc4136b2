"""The heartbeats of workers: each worker renews a row, which also has the counts of its work."""

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from agents.models import WorkerHeartbeat

HEARTBEAT_SECONDS = 15.0
# This is as long as three heartbeats, so that a worker does not count as dead after one heartbeat
# that a busy database delayed.
DEAD_AFTER = timedelta(seconds=45)
# Rows are deleted after this time, because a container has a new name after each start.
_FORGOTTEN_AFTER = timedelta(days=1)


def store_heartbeat(name: str, counts: dict[str, Any], *, is_last: bool = False) -> None:
    """Record that the worker is alive, or with `is_last` that it has ended with these counts."""
    now = timezone.now()
    WorkerHeartbeat.objects.update_or_create(
        name=name, defaults={"beat_at": now - DEAD_AFTER if is_last else now, "counts": counts}
    )
    near = (now - _FORGOTTEN_AFTER, now + _FORGOTTEN_AFTER)
    WorkerHeartbeat.objects.exclude(beat_at__range=near).delete()


def last_heartbeat() -> datetime | None:
    """Return when a worker was last alive.

    A heartbeat from the future was stored before the clock was set back; it is ignored.
    """
    past = WorkerHeartbeat.objects.filter(beat_at__lt=timezone.now() + DEAD_AFTER)
    return past.order_by("-beat_at").values_list("beat_at", flat=True).first()


def is_alive(beat_at: datetime | None) -> bool:
    return beat_at is not None and abs(timezone.now() - beat_at) < DEAD_AFTER


def end_heartbeats() -> None:
    """End the heartbeats of a backup, whose workers were alive when it was made."""
    end = timezone.now() - DEAD_AFTER
    WorkerHeartbeat.objects.filter(beat_at__gt=end).update(beat_at=end)


def read_counts() -> dict[str, dict[str, Any]]:
    """Return the counts of each worker, of its present run or its last one."""
    return dict(WorkerHeartbeat.objects.values_list("name", "counts"))
