"""Measures how long a lock waits behind due summaries, and how many messages a sweep adds to the
broker. It reads only rows and what Redis counts."""

import time
from collections.abc import Sequence
from statistics import median

import psycopg
import redis

from bench.figure import Figure
from bench.load_stack import LoadStack
from testing.http_calls import RunError, Server, call, expect
from testing.session_data import small_setup_of, synthetic_session

SUMMARIES = 3_000
# A model that takes so long for a summary. The threads of both workers are busy all the time.
SUMMARY_MS = 4_000
LOCKS = 5
MOST_LOCK_SECONDS = 2.0
# A lock that has waited for so long is not waited for any more.
PATIENCE_SECONDS = 60.0
SWEEP_SECONDS = 15.0
SWEEPS = 3
LOOK_SECONDS = 0.02
BUILD_SECONDS = 1_200.0


class Backlog:
    """Summaries that are due in as many chapters. Nobody has told the broker of them, so each sweep
    finds them."""

    def __init__(self, stack: LoadStack, count: int) -> None:
        environment = stack.processes.environment
        self._stack = stack
        self._database = psycopg.connect(environment["DATABASE_URL"], autocommit=True)
        self._redis = redis.Redis.from_url(environment["CELERY_BROKER_URL"])
        stack.set_pace(100_000, first_token_ms=SUMMARY_MS)
        stack.build("due", count, timeout=BUILD_SECONDS)
        # The first sweep tells the broker of the summaries, and the workers take up what they can.
        time.sleep(SWEEP_SECONDS + 1)

    def due(self) -> int:
        """Return the number of summaries that wait."""
        return self._count("SELECT count(*) FROM agents_job WHERE status = 'queued'")

    def waiting_messages(self) -> int:
        """Return the length of all lists of the broker."""
        return sum(int(self._redis.llen(key)) for key in self._redis.scan_iter(_type="list"))

    def messages_a_sweep(self) -> float:
        """Return how many messages were added to the broker's lists in 15 seconds, by the mean of
        some sweeps."""
        before, began = self._added(), time.monotonic()
        time.sleep(SWEEPS * SWEEP_SECONDS)
        return (self._added() - before) * SWEEP_SECONDS / (time.monotonic() - began)

    def lock_seconds(self, server: Server, number: int) -> float:
        """Begin a chapter, and return the seconds until a worker has begun its lock."""
        created = expect(201, call(server, "POST", "/api/session", {"mode": "gamemaster"}))
        path = f"/api/session/{created['session_id']}"
        setup = small_setup_of(synthetic_session(1), number)
        expect(200, call(server, "PUT", f"{path}/tab1", setup.as_tab1()))
        began = time.monotonic()
        answer = call(server, "POST", f"{path}/lock", {})
        if answer.status >= 400:
            raise RunError(f"POST {path}/lock: {answer.status} {answer.body[:300]!r}")
        query = "SELECT count(*) FROM agents_job WHERE kind = 'lock' AND status = 'queued'"
        while self._count(query):
            if time.monotonic() - began > PATIENCE_SECONDS:
                return PATIENCE_SECONDS
            time.sleep(LOOK_SECONDS)
        return time.monotonic() - began

    def clear(self) -> None:
        """Delete the jobs that still wait, and what the broker holds of them."""
        self._database.execute("DELETE FROM agents_job WHERE status = 'queued'")
        for key in self._redis.scan_iter(_type="list"):
            self._redis.delete(key)

    def _count(self, query: str) -> int:
        row = self._database.execute(query).fetchone()
        return int(row[0]) if row else 0

    def _added(self) -> int:
        """Return how often something was added to a list of Redis since its start."""
        counts = self._redis.info("commandstats")
        return sum(int(counts.get(f"cmdstat_{one}", {}).get("calls", 0)) for one in ADDING)


# The commands by which the broker adds a message to a list.
ADDING = ("lpush", "rpush")


def measure_backlog(backlog: Backlog, servers: Sequence[Server], where: str) -> list[Figure]:
    """Start some locks behind the summaries, on each server in turn, and watch some sweeps."""
    due, seconds = backlog.due(), []
    for number in range(LOCKS):
        seconds.append(backlog.lock_seconds(servers[number % len(servers)], number))
        if seconds[-1] >= PATIENCE_SECONDS:
            break
    messages = backlog.messages_a_sweep()
    return [
        lock_figure(seconds, due, where),
        Figure(
            f"Messages a sweep adds to the broker, {where}",
            messages,
            f"{messages:,.0f} in 15 s; {backlog.waiting_messages():,} wait",
        ),
    ]


def lock_figure(seconds: Sequence[float], due: int, where: str) -> Figure:
    worst = max(seconds)
    is_late = worst >= PATIENCE_SECONDS
    shown = f"{median(seconds):.2f} and {worst:.2f} s"
    return Figure(
        f"A lock behind {due:,} due summaries begins, {where}: median and worst of {len(seconds)}",
        worst,
        f"not within {PATIENCE_SECONDS:.0f} s" if is_late else shown,
        f"at most {MOST_LOCK_SECONDS:.0f} s",
        worst <= MOST_LOCK_SECONDS,
    )
