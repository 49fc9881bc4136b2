"""Measures several web processes on one PostgreSQL and one Redis (`make bench SCALE=1`).

Two web processes, two workers, a proxy, PostgreSQL and Redis run on this machine, with the client
and the model server beside them. So the figures are compared with each other, and not with those of
a larger machine.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles

from bench.figure import Figure
from bench.load_stack import LoadStack, open_load_stack
from bench.report import report
from bench.scale_backlog import SUMMARIES, Backlog, measure_backlog
from bench.scale_caps import measure_cap
from bench.scale_turns import measure_turns
from testing.http_calls import Server, call, stream
from testing.program import LOOPBACK, free_port, second_name, start_second, wait_for_server
from testing.proxy import NGINX, start_proxy

# A model that writes a word in 80 ms, of which the first one comes after 200 ms.
TOKENS_PER_SECOND = 12.5
PLAYERS = 20
# A page that waits for the reply of another window looks for it so often.
LOOK_SECONDS = 0.05
# On the other process the first words may take so many times as long.
MOST_TIMES = 2.0
ALONE, BOTH = "one of each", "two of each"


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--players", type=int, default=PLAYERS)
    parser.add_argument("--summaries", type=int, default=SUMMARIES, help="so many are due")
    return parser.parse_args(arguments)


@dataclass
class Followed:
    """How one client followed replies: the seconds to the first words of each, since its prompt was
    sent, and those between words."""

    firsts: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)

    def take(self, moments: Sequence[float]) -> None:
        """Add a reply by the seconds at which its words came."""
        self.firsts.append(moments[0])
        self.gaps += [later - earlier for earlier, later in pairwise(moments)]


def main(options: argparse.Namespace) -> int:
    load_before = os.getloadavg()[0]
    with open_load_stack(with_servers=True) as stack:
        figures = measure(stack, players=options.players, summaries=options.summaries)
    return report(figures, session="several processes", load_before=load_before)


def measure(stack: LoadStack, *, players: int, summaries: int) -> list[Figure]:
    """Measure with one web process and one worker, and then with two of each."""
    one, pair = [stack.program], [stack.program]
    figures = measure_turns(stack, one, ALONE)
    stack.set_pace(TOKENS_PER_SECOND)
    writer, window = play(stack, stack.program, stack.program, players)
    figures += figures_of(f"{ALONE}, the prompt", writer)
    figures += figures_of(f"{ALONE}, a second window", window)
    print(f"Building {summaries:,} chapters whose summaries are due.", flush=True)
    backlog = Backlog(stack, summaries)
    figures += measure_backlog(backlog, one, ALONE)
    pair.append(start_another(stack))
    figures += measure_backlog(backlog, pair, BOTH)
    backlog.clear()
    figures += measure_turns(stack, pair, BOTH)
    figures += measure_replies(stack, pair, players)
    figures += measure_cap(stack, pair, BOTH)
    stack.processes.kill(second_name("web"))
    figures += measure_cap(stack, one, ALONE)
    return figures


def measure_replies(stack: LoadStack, pair: Sequence[Server], players: int) -> list[Figure]:
    stack.set_pace(TOKENS_PER_SECOND)
    writers, others = play(stack, pair[0], pair[1], players)
    figures = figures_of("the process that writes", writers)
    figures += figures_of("the other process", others, beside=writers)
    if NGINX is None:
        print("No nginx on this machine: the proxy is not measured.", flush=True)
        return figures
    folder = Path(stack.processes.environment["STORYENGINE_DATA"]).parent
    proxy = start_proxy(stack.processes, pair, folder)
    through, again = play(stack, proxy, proxy, players)
    figures += figures_of("the proxy", through, beside=writers)
    return figures + figures_of("the proxy, a second window", again, beside=writers)


def start_another(stack: LoadStack) -> Server:
    """Start a second web process and a second worker on the same database and broker."""
    server = Server(LOOPBACK, free_port())
    for name in ("web", "worker"):
        start_second(stack.processes, name, server.port)
    wait_for_server(server)
    return server


def play(
    stack: LoadStack, writer: Server, other: Server, players: int
) -> tuple[Followed, Followed]:
    """Send a prompt to each of so many chapters at once, and follow each reply twice. Return how it
    was followed where the prompt was sent, and in a page of the other server."""
    written, followed = Followed(), Followed()
    chapters = [str(chapter) for chapter in stack.build("play", players)]
    with ThreadPoolExecutor(2 * players) as threads:
        sent = time.perf_counter()
        tasks = [threads.submit(prompt, writer, chapter, sent) for chapter in chapters]
        pages = [threads.submit(follow_page, other, chapter, sent) for chapter in chapters]
        for result, threads_of in ((written, tasks), (followed, pages)):
            for task in threads_of:
                result.take(task.result())
    return written, followed


def prompt(server: Server, chapter: str, sent: float) -> list[float]:
    """Send the prompt, and return the seconds since `sent` until each event with words."""
    body = {"agent_slot": 1, "user_text": "The door opens."}
    events = stream(server, f"/api/session/{chapter}/prompt", body, timeout=300)
    return [time.perf_counter() - sent for event in events if event.name == "token"]


def follow_page(server: Server, chapter: str, sent: float) -> list[float]:
    """Wait until the server knows of the reply, and follow it as its page does."""
    while (
        pending := call(server, "GET", f"/api/session/{chapter}").json()["pending_turn"]
    ) is None:
        time.sleep(LOOK_SECONDS)
    path = f"/chapters/{chapter}/attempts/{pending['attempt_id']}/stream"
    events = stream(server, path, method="GET", timeout=300)
    return [
        time.perf_counter() - sent
        for event in events
        if event.name in ("text", "restart") and event.data
    ]


def figures_of(where: str, followed: Followed, *, beside: Followed | None = None) -> list[Figure]:
    first, gap = percentile_95(followed.firsts), percentile_95(followed.gaps)
    most = MOST_TIMES * percentile_95(beside.firsts) if beside else None
    return [
        Figure(
            f"First words, {where}: median and p95",
            first,
            f"{_ms(median(followed.firsts))} and {_ms(first)}",
            "" if most is None else f"at most {_ms(most)}",
            None if most is None else first <= most,
        ),
        Figure(
            f"Between words, {where}: median and p95",
            gap,
            f"{_ms(median(followed.gaps))} and {_ms(gap)}",
        ),
    ]


def percentile_95(values: Sequence[float]) -> float:
    return quantiles(values, n=20)[-1] if len(values) > 1 else values[0]


def _ms(seconds: float) -> str:
    return f"{seconds * 1_000:,.0f} ms"


if __name__ == "__main__":
    sys.exit(main(parse_options()))
