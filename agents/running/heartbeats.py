"""The heartbeats of workers, and of web processes on a database server. Each process renews a row,
which also has the counts of its work, and what other processes compare with their own."""

from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.utils import timezone
from django.utils.crypto import salted_hmac

from agents.models import ProcessHeartbeat

HEARTBEAT_SECONDS = 15.0
# The hexadecimal digits of a fingerprint.
_DIGITS = 8
# A process without a heartbeat for this time counts as dead. The time has three intervals, because
# a busy database may delay a heartbeat.
DEAD_AFTER = timedelta(seconds=45)
# Older rows are deleted. A container has a new name after each start, so its old rows would
# otherwise stay for ever.
_FORGOTTEN_AFTER = timedelta(days=1)


def store_heartbeat(
    name: str,
    counts: dict[str, Any],
    *,
    is_last: bool = False,
    role: str = ProcessHeartbeat.Role.WORKER,
) -> None:
    """Store the counts of the process, and the time of its heartbeat. `is_last` says that the
    process has ended."""
    now = timezone.now()
    ProcessHeartbeat.objects.update_or_create(
        name=name,
        defaults={
            "role": role,
            "beat_at": now - DEAD_AFTER if is_last else now,
            "counts": counts,
            "key_fingerprint": key_fingerprint(),
            "most_connections": most_connections(),
        },
    )
    near = (now - _FORGOTTEN_AFTER, now + _FORGOTTEN_AFTER)
    ProcessHeartbeat.objects.exclude(beat_at__range=near).delete()


def key_fingerprint() -> str:
    """Return a few digits that differ if SECRET_KEY differs. They are so few that nobody can find a
    weak key by them."""
    return salted_hmac("storyengine.heartbeats", "", algorithm="sha256").hexdigest()[:_DIGITS]


def most_connections() -> int:
    """Return the most connections to a database server that this process may open, or 0."""
    pool = connection.settings_dict["OPTIONS"].get("pool")
    return int(pool["max_size"]) if isinstance(pool, dict) else 0


def last_heartbeat() -> datetime | None:
    """Return the time of the latest heartbeat of any worker, or None.

    A heartbeat from the future is ignored, because it was stored before the clock was set back.
    """
    past = ProcessHeartbeat.objects.filter(
        role=ProcessHeartbeat.Role.WORKER, beat_at__lt=timezone.now() + DEAD_AFTER
    )
    return past.order_by("-beat_at").values_list("beat_at", flat=True).first()


def is_alive(beat_at: datetime | None) -> bool:
    return beat_at is not None and abs(timezone.now() - beat_at) < DEAD_AFTER


def end_heartbeats() -> None:
    """End all heartbeats in a restored backup, because they belong to workers of the time when the
    backup was made."""
    end = timezone.now() - DEAD_AFTER
    ProcessHeartbeat.objects.filter(beat_at__gt=end).update(beat_at=end)


def read_counts() -> dict[str, tuple[bool, dict[str, Any]]]:
    """Return, for the name of each process, whether it is alive, and the counts of its present run
    or of its last run."""
    rows = ProcessHeartbeat.objects.values_list("name", "beat_at", "counts")
    return {name: (is_alive(beat_at), counts) for name, beat_at, counts in rows}


def others_alive(name: str = "") -> list[ProcessHeartbeat]:
    """Return the rows, without the counts, of all living processes but the one of this name."""
    now = timezone.now()
    alive = ProcessHeartbeat.objects.filter(beat_at__range=(now - DEAD_AFTER, now + DEAD_AFTER))
    return list(alive.exclude(name=name).defer("counts").order_by("name"))
