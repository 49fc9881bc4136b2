"""Measures two web processes on one PostgreSQL and one Redis (`make bench SCALE=1`).

Two web processes, two workers, a proxy, PostgreSQL and Redis run on this machine, with the client
and the model server beside them. So the figures are compared with each other, and not with those of
a larger machine.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.harness import SCRIPTED, Figure, measure
from bench.load.stack import LoadStack, open_load_stack
from bench.load.streams import percentile
from testing.http_calls import Server, call, stream
from testing.program import LOOPBACK, Processes, free_port, start_second, wait_for_server
from testing.proxy import NGINX, start_proxy

# A model that writes a word in 80 ms, of which the first one comes after 200 ms.
TOKENS_PER_SECOND = 12.5
PLAYERS = 20
# A page that waits for the reply of another window looks for it so often.
LOOK_SECONDS = 0.05
# On the other process the first words may take so many times as long.
MOST_TIMES = 2.0


def main() -> int:
    return measure(run, what="several processes", environment=SCRIPTED)


def run(processes: Processes) -> Iterator[Figure]:
    """Measure with one web process and one worker, and then with two of each."""
    with open_load_stack(processes, with_servers=True) as stack:
        stack.set_pace(TOKENS_PER_SECOND)
        yield from figures_of("one of each", *play(stack, stack.program, stack.program))
        other = Server(LOOPBACK, free_port())
        for name in ("web", "worker"):
            start_second(processes, name, other.port)
        wait_for_server(other)
        yield from figures_of("two of each", *play(stack, stack.program, other))
        if NGINX is None:
            print("No nginx on this machine: the proxy is not measured.", flush=True)
            return
        folder = Path(processes.environment["STORYENGINE_DATA"]).parent
        proxy = start_proxy(processes, [stack.program, other], folder)
        yield from figures_of("the proxy", *play(stack, proxy, proxy))


def play(stack: LoadStack, writer: Server, other: Server) -> tuple[list[float], list[float]]:
    """Send a prompt to each of the chapters at once. Return the seconds until each reply's
    first words came where its prompt was sent, and in a page of the other server."""
    with ThreadPoolExecutor(2 * PLAYERS) as threads:
        chapters = stack.build(PLAYERS)
        sent = time.perf_counter()
        prompts = [threads.submit(first_words, writer, chapter, sent) for chapter in chapters]
        pages = [threads.submit(first_words_of_page, other, one, sent) for one in chapters]
        return [one.result() for one in prompts], [one.result() for one in pages]


def first_words(server: Server, chapter: str, sent: float) -> float:
    """Send the prompt, and return the seconds since `sent` until its first words."""
    body = {"agent_slot": 1, "user_text": "The door opens."}
    events = stream(server, f"/api/session/{chapter}/prompt", body, timeout=300)
    # The stream is read to its end, because a reader who leaves would change what is measured.
    first, *_ = [time.perf_counter() - sent for event in events if event.name == "token"]
    return first


def first_words_of_page(server: Server, chapter: str, sent: float) -> float:
    """Wait until the server knows of the reply, and follow it as its page does."""
    path = f"/api/session/{chapter}"
    while (pending := call(server, "GET", path).json()["pending_turn"]) is None:
        time.sleep(LOOK_SECONDS)
    path = f"/chapters/{chapter}/attempts/{pending['attempt_id']}/stream"
    events = stream(server, path, method="GET", timeout=300)
    words = (event for event in events if event.name in ("text", "restart") and event.data)
    first, *_ = [time.perf_counter() - sent for _ in words]
    return first


def figures_of(where: str, writer: Sequence[float], page: Sequence[float]) -> list[Figure]:
    here, there = 1_000 * percentile(writer, 95), 1_000 * percentile(page, 95)
    name = f"First words, {where}, p95"
    return [
        Figure(f"{name}: where the prompt was sent", here, f"{here:,.0f} ms"),
        Figure.at_most(f"{name}: in the other window", there, MOST_TIMES * here, "{:,.0f} ms"),
    ]


if __name__ == "__main__":
    sys.exit(main())
