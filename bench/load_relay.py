"""Seven streams at once through the engine, and through a bare Django relay beside it."""

import uuid

import uvloop

from bench.figure import Figure
from bench.http_calls import Server
from bench.load_client import Load, play_at_once
from bench.load_stack import FIRST_TOKEN_MS, REPLY_WORDS, LoadStack
from bench.load_streams import added_delays, percentile
from bench.program import start_relay

STREAMS, PACE = 7, 50
ROUNDS = 2


def measure_against_relay(stack: LoadStack, *, steady: float) -> list[Figure]:
    """In turns, so that whatever else the machine does meets both."""
    stack.set_pace(PACE)
    relay = start_relay(stack.processes)
    strangers = [str(uuid.uuid4()) for _ in range(STREAMS)]
    engine: list[float] = []
    bare: list[float] = []
    for _ in range(ROUNDS):
        chapters = stack.build("play", STREAMS)
        engine += _delays(stack, stack.program, chapters, steady / ROUNDS)
        bare += _delays(stack, relay, strangers, steady / ROUNDS)
    stack.processes.kill("relay")
    return [relay_figure(engine, bare)]


def relay_figure(engine: list[float], bare: list[float]) -> Figure:
    ours, theirs = percentile(engine, 95), percentile(bare, 95)
    middles = f"medians {percentile(engine, 50):.1f} and {percentile(bare, 50):.1f}"
    return Figure(
        f"{STREAMS} streams at once: p95 of the added delay, and that of a bare Django relay",
        ours,
        f"{ours:.1f} ms and {theirs:.1f} ms of {len(engine)} and {len(bare)} turns ({middles})",
        "at most the relay's",
        ours <= theirs,
    )


def _delays(stack: LoadStack, server: Server, chapters: list[str], steady: float) -> list[float]:
    reply_seconds = FIRST_TOKEN_MS / 1_000 + REPLY_WORDS / PACE
    load = Load(ramp=reply_seconds, steady=max(steady, reply_seconds))
    played = uvloop.run(play_at_once(server, chapters, load))
    return added_delays(played, stack.calls())
