"""Measures how many chapters can stream at once while the engine still adds only a short delay."""

import math
import os
import re
from collections.abc import Sequence
from typing import Any

import uvloop

from bench.harness import Figure
from bench.load.client import StreamedTurn, play_at_once
from bench.load.stack import FIRST_TOKEN_MS, REPLY_WORDS, LoadStack

MOST_DELAY_MS = 100.0
# The shortest time of each try.
STEADY_SECONDS = 10.0
# The targets. The key is the speed of the model in tokens a second, and the value is the number of
# streams at once.
TARGETS = {50: 100, 20: 200}
# The shares of a target that are tried, up to the first one that is too much.
STEPS = (0.25, 0.5, 0.75, 1.0, 1.25)
_MARK = re.compile(r"Turn \S+ of the load\.")


def measure_streams(stack: LoadStack, pace: int, scale: float) -> Figure:
    reply_seconds = FIRST_TOKEN_MS / 1_000 + REPLY_WORDS / pace
    stack.set_pace(pace)
    target = max(4, round(TARGETS[pace] * scale))
    tried, best = [], 0
    for streams in (round(target * step) for step in STEPS):
        # Each try has new chapters, because a chapter takes no prompt while a reply is written.
        chapters, seconds = stack.build(streams), max(STEADY_SECONDS, reply_seconds)
        playing = play_at_once(stack.program, chapters, ramp=reply_seconds, steady=seconds)
        turns = uvloop.run(playing)
        delay = percentile(added_delays(turns, stack.finished_calls()), 95)
        failures = sum(not turn.is_whole for turn in turns)
        tried.append(f"{streams}: p95 {delay:.0f} ms of {len(turns)} turns, {failures} failed")
        print(f"{pace} tokens a second, {tried[-1]}; load {os.getloadavg()[0]:.1f}", flush=True)
        if failures or delay > MOST_DELAY_MS:
            break
        best = streams
    name = f"Streams at once at {pace} tokens a second, p95 of the added delay under 100 ms"
    shown = f"{best} ({'; '.join(tried)})"
    return Figure(name, best, shown, f"at least {target}", best >= target)


def added_delays(turns: Sequence[StreamedTurn], calls: Sequence[dict[str, Any]]) -> list[float]:
    """Return for each turn the milliseconds that the engine added to the time until the first
    token. This is the time that the client measured, less the time that the model server took."""
    # The last mark of a request is its own. The marks of earlier turns stand before it.
    own = {
        marks[-1]: call["first_token_ms"]
        for call in calls
        if call["first_token_ms"] is not None and (marks := _MARK.findall(call["prompt"]))
    }
    return [
        turn.first_token * 1_000 - own[turn.mark]
        for turn in turns
        if turn.first_token is not None and turn.mark in own
    ]


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest of the values that at least `percent` percent of the values do not
    exceed. Return infinity if there are no values."""
    if not values:
        return math.inf
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]
