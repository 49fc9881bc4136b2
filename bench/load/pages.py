"""Measures how long pages and polls of a long chapter take."""

import http.client
import time
from collections.abc import Sequence
from statistics import median

from bench.harness import Figure
from bench.load.stack import LoadStack
from testing.http_calls import RunError, Server

EVENTS = 10_000
READS, UNCOUNTED = 20, 3
MOST_PAGE_MS, MOST_POLL_MS, MOST_POLL_QUERIES = 100.0, 5.0, 2


def measure_pages(stack: LoadStack, *, events: int) -> list[Figure]:
    return [
        page_figure(
            f"{name}, {events:,} events", status, queries, _times(stack.program, path, status)
        )
        for name, path, status, queries in stack.build("pages", events)
    ]


def page_figure(name: str, status: int, queries: int, milliseconds: Sequence[float]) -> Figure:
    middle, worst = median(milliseconds), max(milliseconds)
    shown = f"{middle:.1f} ms (worst {worst:.1f}), {queries} queries"
    if status == 204:
        target = f"under {MOST_POLL_MS:.0f} ms, at most {MOST_POLL_QUERIES} queries"
        passed = middle < MOST_POLL_MS and queries <= MOST_POLL_QUERIES
        return Figure(name, middle, shown, target, passed)
    most = f"at most {MOST_PAGE_MS:.0f} ms each time"
    return Figure(name, middle, shown, most, worst <= MOST_PAGE_MS)


def _times(server: Server, path: str, status: int) -> list[float]:
    """Return the milliseconds of each request over a connection that stays open, as a browser's
    does."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    taken = []
    for _ in range(UNCOUNTED + READS):
        started = time.perf_counter()
        connection.request("GET", path)
        response = connection.getresponse()
        content = response.read()
        taken.append(1_000 * (time.perf_counter() - started))
        if response.status != status:
            raise RunError(f"GET {path}: {response.status} {content[:300]!r}")
    connection.close()
    return taken[UNCOUNTED:]
