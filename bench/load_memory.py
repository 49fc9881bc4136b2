"""Measures the memory of the web process and the worker: without work, after much play, and with
open streams.

All sizes are proportional set sizes (PSS), which divide shared pages among the processes.
"""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import uvloop

from bench.figure import Figure
from bench.load_client import Load, play_at_once
from bench.load_stack import FIRST_TOKEN_MS, REPLY_WORDS, LoadStack
from testing.http_calls import RunError, Server, call

STREAMS, PACE = 100, 20
# An hour of play is seven chapters with a prompt a minute each.
HOUR_CHAPTERS, HOUR_PROMPTS = 7, 60
CHUNK = 7
MOST_IDLE, MOST_STREAM, MOST_GROWTH = 250e6, 250e3, 0.10
NAMES = ("web", "worker")


def measure_memory(stack: LoadStack, *, streams: int, prompts: int) -> list[Figure]:
    """Measure the memory. In place of the prompts of an hour of play, each of seven chapters plays
    `prompts` prompts."""
    hour = stack.build("play", HOUR_CHAPTERS)
    stack.set_pace(100_000, first_token_ms=1)
    # Each chapter plays one stretch before the measurement, so that everything that is loaded only
    # once is already in memory.
    _play(stack.program, hour, CHUNK)
    idle = _settled(stack)
    _play(stack.program, hour, prompts)
    after = _settled(stack)
    return [
        idle_figure(idle),
        growth_figure(idle, after, HOUR_CHAPTERS * prompts),
        stream_figure(*_with_streams(stack, streams), streams),
    ]


def idle_figure(sizes: dict[str, int]) -> Figure:
    total = sum(sizes.values())
    shown = ", ".join(f"{name} {size / 1e6:.0f}" for name, size in sizes.items())
    return Figure(
        "Memory of web and worker, idle after some play (PSS)",
        total,
        f"{total / 1e6:.0f} MB ({shown})",
        f"at most {MOST_IDLE / 1e6:.0f} MB",
        total <= MOST_IDLE,
    )


def growth_figure(before: dict[str, int], after: dict[str, int], turns: int) -> Figure:
    growth = sum(after.values()) / sum(before.values()) - 1
    shown = ", ".join(f"{n} {before[n] / 1e6:.0f} to {after[n] / 1e6:.0f} MB" for n in before)
    return Figure(
        f"Growth of that after {turns} turns, with their pages and polls",
        growth,
        f"{growth:+.1%} ({shown})",
        f"at most {MOST_GROWTH:.0%}",
        growth <= MOST_GROWTH,
    )


def stream_figure(before: int, during: int, streams: int) -> Figure:
    each = (during - before) / streams
    return Figure(
        f"Memory of an open stream, of {streams} (PSS of web)",
        each,
        f"{each / 1e3:.0f} KB",
        f"at most {MOST_STREAM / 1e3:.0f} KB",
        each <= MOST_STREAM,
    )


def pss_of(pid: int) -> int:
    """Return the memory, in bytes, of the process and of all processes below it."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    size = next(line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:"))
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(size) * 1_024 + sum(pss_of(int(child)) for child in children)


def _sizes(stack: LoadStack) -> dict[str, int]:
    return {name: pss_of(pid) for name, pid in zip(NAMES, stack.pids(*NAMES), strict=True)}


def _settled(stack: LoadStack) -> dict[str, int]:
    """Return the smallest of five measurements, because a summary may run during some of them."""
    looks = []
    for _ in range(5):
        time.sleep(1)
        looks.append(_sizes(stack))
    return min(looks, key=lambda sizes: sum(sizes.values()))


def _play(program: Server, chapters: Sequence[str], prompts: int) -> None:
    """Play prompts as a browser does. After each prompt, load the page and poll once."""

    def play(session_id: str) -> None:
        for number in range(prompts):
            _send(program, session_id, number)
            _expect(program, "GET", f"/chapters/{session_id}/play")
            _expect(program, "GET", f"/chapters/{session_id}/play/status?shape=playing")

    with ThreadPoolExecutor(len(chapters)) as readers:
        list(readers.map(play, chapters))


def _send(program: Server, session_id: str, number: int) -> None:
    body = {"agent_slot": number % 3 + 1, "user_text": f"Beat {number} of an hour. What now?"}
    _expect(program, "POST", f"/api/session/{session_id}/prompt", body)


def _expect(program: Server, method: str, path: str, body: object = None) -> None:
    answer = call(program, method, path, body)
    if answer.status not in (200, 201, 204):
        raise RunError(f"{method} {path}: {answer.status} {answer.body[:300]!r}")


def _with_streams(stack: LoadStack, streams: int) -> tuple[int, int]:
    """Return the memory of the web process twice, in bytes: before the streams are opened, and
    while all of them are open."""
    reply_seconds = FIRST_TOKEN_MS / 1_000 + REPLY_WORDS / PACE
    chapters = stack.build("play", streams)
    stack.set_pace(PACE)
    # The chapters are new, so that the measured memory includes the caches of their texts.
    load = Load(ramp=reply_seconds / 2, steady=0.5)
    web = stack.pids("web")[0]
    before = pss_of(web)
    during = uvloop.run(_look_while_streaming(stack, chapters, load, web))
    return before, during


async def _look_while_streaming(
    stack: LoadStack, chapters: Sequence[str], load: Load, web: int
) -> int:
    playing = asyncio.create_task(play_at_once(stack.program, chapters, load))
    await asyncio.sleep(load.ramp + load.steady)
    most = 0
    for _ in range(4):
        most = max(most, await asyncio.to_thread(pss_of, web))
        await asyncio.sleep(0.5)
    await playing
    return most
