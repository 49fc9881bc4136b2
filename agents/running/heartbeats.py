"""The heartbeats of workers. Each worker renews a row, which also has the counts of its work."""

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from agents.models import WorkerHeartbeat

HEARTBEAT_SECONDS = 15.0
# A worker without a heartbeat for this time counts as dead. The time has three intervals, because a
# busy database may delay a heartbeat.
DEAD_AFTER = timedelta(seconds=45)
# Older rows are deleted. A container has a new name after each start, so its old rows would
# otherwise stay for ever.
_FORGOTTEN_AFTER = timedelta(days=1)


def store_heartbeat(name: str, counts: dict[str, Any], *, is_last: bool = False) -> None:
    """Store the counts of the worker, and the time of its heartbeat. `is_last` says that the worker
    has ended."""
    now = timezone.now()
    WorkerHeartbeat.objects.update_or_create(
        name=name, defaults={"beat_at": now - DEAD_AFTER if is_last else now, "counts": counts}
    )
    near = (now - _FORGOTTEN_AFTER, now + _FORGOTTEN_AFTER)
    WorkerHeartbeat.objects.exclude(beat_at__range=near).delete()


def last_heartbeat() -> datetime | None:
    """Return the time of the latest heartbeat of any worker, or None.

    A heartbeat from the future is ignored, because it was stored before the clock was set back.
    """
    past = WorkerHeartbeat.objects.filter(beat_at__lt=timezone.now() + DEAD_AFTER)
    return past.order_by("-beat_at").values_list("beat_at", flat=True).first()


def is_alive(beat_at: datetime | None) -> bool:
    return beat_at is not None and abs(timezone.now() - beat_at) < DEAD_AFTER


def end_heartbeats() -> None:
    """End all heartbeats in a restored backup, because they belong to workers of the time when the
    backup was made."""
    end = timezone.now() - DEAD_AFTER
    WorkerHeartbeat.objects.filter(beat_at__gt=end).update(beat_at=end)


def read_counts() -> dict[str, dict[str, Any]]:
    """Return, for the name of each worker, the counts of its present run or of its last run."""
    return dict(WorkerHeartbeat.objects.values_list("name", "counts"))
