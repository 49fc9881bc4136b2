"""Compares the delay of seven streams at once through the engine with the delay through a bare
Django relay."""

from collections.abc import Sequence

import uvloop

from bench.figure import Figure
from bench.load_client import Load, play_at_once
from bench.load_stack import FIRST_TOKEN_MS, REPLY_WORDS, LoadStack
from bench.load_streams import added_delays, percentile
from testing.http_calls import Server
from testing.program import start_relay

STREAMS, PACE = 7, 50
ROUNDS = 4


def measure_against_relay(stack: LoadStack, *, steady: float) -> list[Figure]:
    """Measure the engine and the two relays alternately, so that other work of the machine slows
    down all three."""
    stack.set_pace(PACE)
    engine: list[float] = []
    bare: list[float] = []
    pooled: list[float] = []
    measured = [(stack.program, engine), (start_relay(stack.processes), bare)]
    if stack.has_servers:
        measured.append((start_relay(stack.processes, with_pool=True), pooled))
    for _ in range(ROUNDS):
        for server, delays in measured:
            delays += _delays(stack, server, steady / ROUNDS)
    return [relay_figure(engine, bare, pooled)]


def relay_figure(engine: Sequence[float], bare: Sequence[float], pooled: Sequence[float]) -> Figure:
    """Return the figure.

    `bare` has the delays of a relay that opens a connection to the database for each request, as
    Django does by default. `pooled` has the delays of a relay with a connection pool, as the engine
    has. The engine must not be slower than `bare`. The figure also shows `pooled`, but has no
    target for it.
    """
    ours, theirs = percentile(engine, 95), percentile(bare, 95)
    middles = f"medians {percentile(engine, 50):.1f} and {percentile(bare, 50):.1f}"
    shown = f"{ours:.1f} ms and {theirs:.1f} ms of {len(engine)} and {len(bare)} turns ({middles})"
    if pooled:
        worst, middle = percentile(pooled, 95), percentile(pooled, 50)
        shown += f"; of a relay with the engine's pool {worst:.1f} ms, median {middle:.1f}"
    return Figure(
        f"{STREAMS} streams at once: p95 of the added delay, and of a bare Django relay (no pool)",
        ours,
        shown,
        "at most the relay's",
        ours <= theirs,
    )


def _delays(stack: LoadStack, server: Server, steady: float) -> list[float]:
    chapters = stack.build("play", STREAMS)
    reply_seconds = FIRST_TOKEN_MS / 1_000 + REPLY_WORDS / PACE
    load = Load(ramp=reply_seconds, steady=max(steady, reply_seconds))
    played = uvloop.run(play_at_once(server, chapters, load))
    return added_delays(played, stack.calls())
