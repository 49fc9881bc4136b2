"""The heartbeats of workers and, on PostgreSQL, of web processes. Each process renews a row.
The row also has the counts of the process's work, and values that other processes compare with
their own.

The clock of the database measures heartbeats, because the clocks of several machines may differ by
more than the time between two heartbeats.
"""

from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.crypto import salted_hmac

from agents.models import ProcessHeartbeat
from sessions.leases import age_of, from_now

HEARTBEAT_SECONDS = 15.0
# The hexadecimal digits of a fingerprint.
_DIGITS = 8
# A process without a heartbeat for this time counts as dead. The time has three intervals, because
# a busy database may delay a heartbeat.
DEAD_AFTER = timedelta(seconds=45)
# Older rows are deleted. A container has a new name after each start, so its old rows would
# otherwise be kept for ever.
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
    ProcessHeartbeat.objects.update_or_create(
        name=name,
        defaults={
            "role": role,
            "beat_at": from_now(-DEAD_AFTER) if is_last else Now(),
            "counts": counts,
            "key_fingerprint": key_fingerprint(),
            "most_connections": most_connections(),
        },
    )
    ProcessHeartbeat.objects.exclude(_within(_FORGOTTEN_AFTER)).delete()


def key_fingerprint() -> str:
    """Return a few digits of a hash of SECRET_KEY, which let processes notice different keys. There
    are so few digits that nobody can find a weak key by them."""
    return salted_hmac("storyengine.heartbeats", "", algorithm="sha256").hexdigest()[:_DIGITS]


def most_connections() -> int:
    """Return how many connections to a database server this process may open at most, or 0."""
    pool = connection.settings_dict["OPTIONS"].get("pool")
    return int(pool["max_size"]) if isinstance(pool, dict) else 0


def since_last_heartbeat() -> timedelta | None:
    """Return how long ago the latest heartbeat of any worker was, or None.

    A heartbeat from the future is ignored, because it was stored before the clock was set back.
    """
    past = ProcessHeartbeat.objects.filter(
        role=ProcessHeartbeat.Role.WORKER, beat_at__lt=from_now(DEAD_AFTER)
    )
    ages = past.annotate(age=age_of("beat_at")).order_by("-beat_at")
    return ages.values_list("age", flat=True).first()


def since_heartbeat_of(name: str) -> timedelta | None:
    """Return how long ago the latest heartbeat of the process of this name was, or None."""
    ages = ProcessHeartbeat.objects.filter(name=name).annotate(age=age_of("beat_at"))
    return ages.values_list("age", flat=True).first()


def is_alive(age: timedelta | None) -> bool:
    """Return whether a process counts as alive if its latest heartbeat is this old."""
    return age is not None and abs(age) < DEAD_AFTER


def end_heartbeats() -> None:
    """End all heartbeats in a restored backup, because they belong to workers of the time when the
    backup was made."""
    end = from_now(-DEAD_AFTER)
    ProcessHeartbeat.objects.filter(beat_at__gt=end).update(beat_at=end)


def read_counts() -> dict[str, tuple[bool, dict[str, Any]]]:
    """Return, for the name of each process, whether it is alive, and the counts of its present run
    or of its last run."""
    rows = ProcessHeartbeat.objects.annotate(age=age_of("beat_at"))
    told = rows.values_list("name", "age", "counts")
    return {name: (is_alive(age), counts) for name, age, counts in told}


def count_living_workers() -> int:
    workers = ProcessHeartbeat.objects.filter(role=ProcessHeartbeat.Role.WORKER)
    return workers.filter(_within(DEAD_AFTER)).count()


def others_alive(name: str = "") -> list[ProcessHeartbeat]:
    """Return the rows, without the counts, of all living processes but the one of this name."""
    alive = ProcessHeartbeat.objects.filter(_within(DEAD_AFTER))
    return list(alive.exclude(name=name).defer("counts").order_by("name"))


def _within(pause: timedelta) -> Q:
    """Return a condition that is true of rows whose heartbeat is at most this time away from
    now."""
    return Q(beat_at__range=(from_now(-pause), from_now(pause)))
