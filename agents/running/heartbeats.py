"""Which workers are alive: each renews a row, with what it has counted of its own work."""

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from agents.models import WorkerHeartbeat

HEARTBEAT_SECONDS = 15.0
# Three times that, so that a database that was busy once makes nobody dead.
DEAD_AFTER = timedelta(seconds=45)
# A container that is made anew has another name each time.
_FORGOTTEN_AFTER = timedelta(days=1)


def store_heartbeat(name: str, counts: dict[str, Any], *, is_last: bool = False) -> None:
    """The worker lives; or, with `is_last`, it has ended, and these are its last counts."""
    now = timezone.now()
    WorkerHeartbeat.objects.update_or_create(
        name=name, defaults={"beat_at": now - DEAD_AFTER if is_last else now, "counts": counts}
    )
    near = (now - _FORGOTTEN_AFTER, now + _FORGOTTEN_AFTER)
    WorkerHeartbeat.objects.exclude(beat_at__range=near).delete()


def last_heartbeat() -> datetime | None:
    """When a worker was last known to live.

    One from the future was stored before the clock was set back, and hides no other.
    """
    past = WorkerHeartbeat.objects.filter(beat_at__lt=timezone.now() + DEAD_AFTER)
    return past.order_by("-beat_at").values_list("beat_at", flat=True).first()


def is_alive(beat_at: datetime | None) -> bool:
    return beat_at is not None and abs(timezone.now() - beat_at) < DEAD_AFTER


def end_heartbeats() -> None:
    """What came with a backup tells of workers that lived when it was made."""
    end = timezone.now() - DEAD_AFTER
    WorkerHeartbeat.objects.filter(beat_at__gt=end).update(beat_at=end)


def read_counts() -> dict[str, dict[str, Any]]:
    """What each worker has counted in its present run, or in its last one."""
    return dict(WorkerHeartbeat.objects.values_list("name", "counts"))
