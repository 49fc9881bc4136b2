"""Measures how long pages and polls take, and how many of them the program can answer in a
second."""

import http.client
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.figure import Figure
from bench.load_stack import LoadStack
from testing.http_calls import RunError, Server

CHAPTERS, EVENTS = 1_000, 10_000
READS, UNCOUNTED = 20, 3
CLIENTS = 4
MOST_PAGE_MS, MOST_POLL_MS, MOST_POLL_QUERIES = 100.0, 5.0, 2


@dataclass(frozen=True)
class PageTimes:
    """The times of a page: the milliseconds of each request while one client sends requests one
    after the other, and the answers in a second while four clients send requests at once."""

    name: str
    status: int
    queries: int
    milliseconds: Sequence[float]
    per_second: float


def measure_pages(stack: LoadStack, *, events: int, chapters: int, seconds: float) -> list[Figure]:
    pages = stack.build("pages", events)
    for page in pages:
        page["name"] += f", {events:,} events"
    library = stack.build("library", chapters)
    pages.insert(0, {"name": f"library of {chapters:,} chapters", "status": 200, **library})
    figures = []
    for page in pages:
        times = measure(stack.program, page, seconds=seconds)
        figures.append(page_figure(times))
        print(f"{figures[-1].name}: {figures[-1].value}; load {os.getloadavg()[0]:.1f}", flush=True)
    return figures


def measure(program: Server, page: dict[str, Any], *, seconds: float) -> PageTimes:
    path, status = page["path"], page["status"]
    with _Reader(program) as reader:
        taken = [reader.get(path, status) for _ in range(UNCOUNTED + READS)][UNCOUNTED:]
    return PageTimes(
        page["name"],
        status,
        page["queries"],
        [1_000 * each for each in taken],
        _rate(program, path, status, seconds),
    )


def page_figure(times: PageTimes) -> Figure:
    middle = median(times.milliseconds)
    shown = (
        f"{middle:.1f} ms (worst {max(times.milliseconds):.1f}), {times.queries} queries, "
        f"{times.per_second:.0f} a second"
    )
    if times.status == 204:
        target = f"204, under {MOST_POLL_MS:.0f} ms, at most {MOST_POLL_QUERIES} queries"
        passed = middle < MOST_POLL_MS and times.queries <= MOST_POLL_QUERIES
    else:
        target = f"at most {MOST_PAGE_MS:.0f} ms each time"
        passed = max(times.milliseconds) <= MOST_PAGE_MS
    return Figure(times.name, middle, shown, target, passed)


class _Reader:
    """A client whose connection stays open from one request to the next, as a browser's does."""

    def __init__(self, server: Server) -> None:
        self._connection = http.client.HTTPConnection(server.host, server.port, timeout=60)

    def __enter__(self) -> "_Reader":
        self._connection.connect()
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def get(self, path: str, status: int) -> float:
        """Request a page, and return the seconds until it was read. Raise RunError if the
        answer's status is not `status`."""
        started = time.perf_counter()
        self._connection.request("GET", path)
        response = self._connection.getresponse()
        content = response.read()
        if response.status != status:
            raise RunError(f"GET {path}: {response.status} {content[:300]!r}")
        return time.perf_counter() - started


def _rate(server: Server, path: str, status: int, seconds: float) -> float:
    end = time.perf_counter() + seconds

    def read(_: int) -> int:
        count = 0
        with _Reader(server) as reader:
            while time.perf_counter() < end:
                reader.get(path, status)
                count += 1
        return count

    started = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as clients:
        total = sum(clients.map(read, range(CLIENTS)))
    return total / (time.perf_counter() - started)
