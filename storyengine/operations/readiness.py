"""Checks whether the program can work: database, broker, disk, worker and waiting jobs.

The checks may be called every second, because each result is used again for a second. They answer
in time even if a server hangs. While a check of a server is still running, no second check of it
starts.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from celery import current_app
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.db.models import Q
from django.utils import timezone
from kombu.exceptions import OperationalError

from agents.calling.consent import is_allowed, provider_host
from agents.calling.servers.choices import uses_embedded
from agents.llm.embedded.status import is_ready, read_embedded_server
from agents.models import Job, LLMArtifact
from agents.modes.registry import all_agents
from agents.running.heartbeats import is_alive, since_last_heartbeat
from agents.running.jobs import due_jobs
from sessions.leases import age_of
from sessions.storage import find_full_folder, free_bytes
from storyengine.stack.storage_refusals import has_met_full_disk

ANSWER_SECONDS = 2
_HOLDS_SECONDS = 1.0
# A job that has waited for this long makes the check fail. Shorter waits are normal while workers
# are busy.
WAITS_TOO_LONG = timedelta(minutes=10)
_FILES = "filesystem://"
# After a request failed because a disk was full, the disk counts as full for this many seconds.
# This is needed for a database server, because the free space on the server's disk cannot be
# measured.
_FULL_FOR_SECONDS = 10.0


@dataclass(frozen=True)
class Check:
    """The result of a check.

    `details` have only numbers and times, no texts or addresses. They are shown only to callers
    with the token.
    """

    name: str
    is_ok: bool
    ms: int = 0
    details: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Readiness:
    """The results of all checks, and facts about the provider. The program can be ready without its
    provider, because pages work without it."""

    checks: list[Check]
    provider: dict[str, object]

    @property
    def is_ready(self) -> bool:
        return all(check.is_ok for check in self.checks)


class _Question:
    """A check that runs in its own thread. It never runs twice at the same time, and all callers
    share its result."""

    def __init__(self, look: Callable[[], Readiness]) -> None:
        self._look = look
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self._answer: Future[tuple[Readiness, float]] | None = None

    async def ask(self) -> Readiness | None:
        """Return a result that is less than a second old. If the check takes longer than
        ANSWER_SECONDS, return None.

        An unexpected error of the check is raised, so that the log shows it as a bug. The next call
        then runs the check again.
        """
        if self._answer is None or self._is_old(self._answer):
            self._answer = self._thread.submit(self._look_now)
        waiting = asyncio.wrap_future(self._answer)
        await asyncio.wait({waiting}, timeout=ANSWER_SECONDS)
        return waiting.result()[0] if waiting.done() else None

    def _look_now(self) -> tuple[Readiness, float]:
        return self._look(), time.monotonic()

    @staticmethod
    def _is_old(answer: "Future[tuple[Readiness, float]]") -> bool:
        """Return whether the check must run again, because its result is too old or it ended with
        an unexpected error."""
        if not answer.done():
            return False
        if answer.cancelled() or answer.exception() is not None:
            return True
        return time.monotonic() - answer.result()[1] >= _HOLDS_SECONDS


async def read_readiness() -> Readiness:
    rows, broker, disk = await asyncio.gather(_rows.ask(), _broker.ask(), _disk.ask())
    waited = round(ANSWER_SECONDS * 1000)
    rows = rows or _without_database(waited)
    broker = broker or Readiness([Check("broker", False, waited)], {})
    disk = disk or Readiness([Check("disk", False, waited)], {})
    return Readiness([*rows.checks, *broker.checks, *disk.checks], rows.provider)


def look_at_broker() -> bool:
    """Return whether the broker would accept a message now. The check takes a few seconds at
    most."""
    url = settings.CELERY_BROKER_URL
    if url.startswith(_FILES):
        return os.access(settings.BROKER_FOLDER / "messages", os.R_OK | os.W_OK | os.X_OK)
    try:
        patience = {"socket_connect_timeout": ANSWER_SECONDS, "socket_timeout": ANSWER_SECONDS}
        with current_app.connection_for_write(url, transport_options=patience) as broker:
            broker.ensure_connection(max_retries=1, interval_start=0, timeout=ANSWER_SECONDS)
    except (OperationalError, OSError):
        return False
    return True


def _ask_broker() -> Readiness:
    with _timed() as took:
        is_there = look_at_broker()
    return Readiness([Check("broker", is_there, took())], {})


def _ask_disk() -> Readiness:
    with _timed() as took:
        is_full = find_full_folder() is not None
        free = free_bytes(settings.DATA_FOLDER) // 1_000_000
    has_room = not is_full and not has_met_full_disk(within_seconds=_FULL_FOR_SECONDS)
    return Readiness([Check("disk", has_room, took(), {"free_mb": free})], {})


def _ask_database() -> Readiness:
    with _timed() as took:
        try:
            with _timed() as first:
                pulse = since_last_heartbeat()
            with _timed() as second:
                oldest = _oldest_due()
            return Readiness(
                [
                    Check("database", True, first()),
                    Check(
                        "worker", is_alive(pulse), first(), {"last_pulse_seconds": _seconds(pulse)}
                    ),
                    _check_queue(oldest, second()),
                ],
                _describe_provider(),
            )
        except DatabaseError:
            return _without_database(took())
        finally:
            connection.close()


def _oldest_due() -> timedelta | None:
    """Return for how long the oldest due job has waited. Each class of work has a query of its own,
    so that the database uses the index."""
    due = due_jobs().order_by("run_after").annotate(age=age_of("run_after"))
    ages = (due.filter(queue=one).values_list("age", flat=True).first() for one in Job.Queue.values)
    return max((age for age in ages if age is not None), default=None)


def _without_database(milliseconds: int) -> Readiness:
    """Return the results for a database that cannot be reached. Workers and jobs fail the check
    too, because their rows cannot be read."""
    names = ("database", "worker", "queue")
    return Readiness([Check(name, False, milliseconds) for name in names], {})


def _check_queue(oldest: timedelta | None, milliseconds: int) -> Check:
    is_ok = oldest is None or oldest < WAITS_TOO_LONG
    return Check("queue", is_ok, milliseconds, {"oldest_waiting_seconds": _seconds(oldest) or 0})


def _describe_provider() -> dict[str, object]:
    """Describe the provider from facts that the program has already. The provider itself is not
    asked."""
    # The host is found first, because this reads the choices of models.
    host = provider_host()
    if uses_embedded(all_agents()):
        server = read_embedded_server()
        state = "ready" if server is not None and is_ready(server) else "not ready"
    else:
        state = "allowed" if is_allowed(host) else "not allowed yet"
    latest = (
        LLMArtifact.objects.order_by("-created_at")
        .annotate(is_finished=Q(error=""))
        .values_list("created_at", "is_finished")
        .first()
    )
    if latest is None:
        return {"state": state}
    ended = "finished" if latest[1] else "failed or stopped"
    return {
        "state": state,
        "last_call": ended,
        "last_call_seconds": _seconds(timezone.now() - latest[0]),
    }


def _seconds(age: timedelta | None) -> int | None:
    return None if age is None else max(0, round(age.total_seconds()))


@contextmanager
def _timed() -> Iterator[Callable[[], int]]:
    """Yield a function that returns the milliseconds since the block began. After the block, it
    returns how many milliseconds the block took."""
    started = time.perf_counter()
    ended: list[float] = []
    yield lambda: round(((ended[0] if ended else time.perf_counter()) - started) * 1000)
    ended.append(time.perf_counter())


_rows = _Question(_ask_database)
_broker = _Question(_ask_broker)
_disk = _Question(_ask_disk)
