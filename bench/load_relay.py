"""Seven streams at once through the engine, and through a bare Django relay beside it."""

import uuid
from dataclasses import replace

import uvloop

from bench.figure import Figure
from bench.http_calls import Server
from bench.load_client import Load, play_at_once
from bench.load_stack import FIRST_TOKEN_MS, REPLY_WORDS, LoadStack
from bench.load_streams import added_delays, percentile
from bench.program import start_relay

STREAMS, PACE = 7, 50
ROUNDS = 3


def measure_against_relay(stack: LoadStack, *, steady: float) -> list[Figure]:
    """In turns, so that whatever else the machine does meets all of them."""
    stack.set_pace(PACE)
    relay = start_relay(stack.processes)
    smallest = replace(relay, prefix="/smallest")
    strangers = [str(uuid.uuid4()) for _ in range(STREAMS)]
    engine: list[float] = []
    bare: list[float] = []
    least: list[float] = []
    for _ in range(ROUNDS):
        for server, delays in ((stack.program, engine), (relay, bare)):
            chapters = stack.build("play", STREAMS)
            delays += _delays(stack, server, chapters, steady / ROUNDS)
        least += _delays(stack, smallest, strangers, steady / ROUNDS)
    stack.processes.kill("relay")
    return [relay_figure(engine, bare, least)]


def relay_figure(engine: list[float], bare: list[float], least: list[float]) -> Figure:
    """`bare` made the engine's two commits; `least`, smaller ones, are told and are no target."""
    ours, theirs = percentile(engine, 95), percentile(bare, 95)
    middles = f"medians {percentile(engine, 50):.1f} and {percentile(bare, 50):.1f}"
    smallest = f"{percentile(least, 95):.1f} ms, median {percentile(least, 50):.1f}"
    return Figure(
        f"{STREAMS} streams at once: p95 of the added delay, and that of a bare Django relay",
        ours,
        f"{ours:.1f} ms and {theirs:.1f} ms of {len(engine)} and {len(bare)} turns "
        f"({middles}); of a relay that stores one row {smallest}",
        "at most the relay's",
        ours <= theirs,
    )


def _delays(stack: LoadStack, server: Server, chapters: list[str], steady: float) -> list[float]:
    reply_seconds = FIRST_TOKEN_MS / 1_000 + REPLY_WORDS / PACE
    load = Load(ramp=reply_seconds, steady=max(steady, reply_seconds))
    played = uvloop.run(play_at_once(server, chapters, load))
    return added_delays(played, stack.calls())
