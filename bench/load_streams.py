"""Measures how many chapters can stream at once while the engine still adds only a short delay."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import uvloop

from bench.figure import Figure
from bench.load_client import Load, Played, play_at_once
from bench.load_stack import FIRST_TOKEN_MS, REPLY_WORDS, LoadStack

MOST_DELAY_MS = 100.0
# The targets. The key is the speed of the model in tokens a second, and the value is the number of
# streams at once.
TARGETS = {50: 100, 20: 200}
TRIES = 4
# The search ends when the smallest number of streams with a bad delay is at most this factor times
# the largest number with a good delay.
FINEST = 1.1


@dataclass(frozen=True)
class Step:
    streams: int
    delay_ms: float
    turns: int
    failures: int

    @property
    def holds(self) -> bool:
        return self.delay_ms <= MOST_DELAY_MS and not self.failures

    def __str__(self) -> str:
        failed = f", {self.failures} FAILED" if self.failures else ""
        return f"{self.streams} streams: p95 {self.delay_ms:.0f} ms of {self.turns} turns{failed}"


def measure_streams(
    stack: LoadStack, pace: int, *, steady: float, scale: float = 1.0
) -> list[Figure]:
    reply_seconds = FIRST_TOKEN_MS / 1_000 + REPLY_WORDS / pace
    stack.set_pace(pace)
    target = round(TARGETS[pace] * scale)
    # Each try has new chapters, because a chapter takes no prompt while a reply is being written.
    load = Load(ramp=reply_seconds, steady=max(steady, reply_seconds))

    def measure(streams: int) -> Step:
        step = measure_step(stack, streams, load)
        print(f"{pace} tokens a second, {step}; load {os.getloadavg()[0]:.1f}", flush=True)
        return step

    steps = search(measure, target)
    return [stream_figure(steps, pace, target)]


def measure_step(stack: LoadStack, streams: int, load: Load) -> Step:
    chapters = stack.build("play", streams)
    played = uvloop.run(play_at_once(stack.program, chapters, load))
    delays = added_delays(played, stack.calls())
    failures = len(played.failures)
    return Step(streams, percentile(delays, 95), len(delays), failures)


def search(measure: Callable[[int], Step], target: int, *, tries: int = TRIES) -> list[Step]:
    """Search for the largest number of streams with a good delay. The target is tried first. Then
    larger numbers are tried until one of them has a bad delay, or smaller numbers until one of them
    has a good delay. At the end, numbers between the best good and the best bad one are tried."""
    steps: list[Step] = []
    good, bad = 0, 0
    streams = target
    while len(steps) < tries and streams > 0:
        step = measure(streams)
        steps.append(step)
        if step.holds:
            good = max(good, streams)
        else:
            bad = min(bad or streams, streams)
        if not bad:
            streams = math.ceil(good * 1.25)
        elif not good:
            streams = bad * 2 // 3
        elif bad / good <= FINEST:
            break
        else:
            streams = round((good + bad) / 2)
    return steps


def stream_figure(steps: Sequence[Step], pace: int, target: int) -> Figure:
    best = max((step.streams for step in steps if step.holds), default=0)
    shown = "; ".join(str(step) for step in sorted(steps, key=lambda step: step.streams))
    return Figure(
        f"Streams at once at {pace} tokens a second, p95 of the added delay under 100 ms",
        best,
        f"{best} ({shown})",
        f"at least {target}",
        best >= target,
    )


def added_delays(played: Played, calls: Sequence[dict[str, Any]]) -> list[float]:
    """Return for each turn the milliseconds that the engine added to the time until the first
    token. This is the time that the client measured, less the time that the model server took."""
    own = {
        mark: call["first_token_ms"]
        for call in calls
        if call["first_token_ms"] is not None and (mark := _mark_in(call["prompt"]))
    }
    return [
        turn.first_token * 1_000 - own[turn.mark]
        for turn in played.turns
        if turn.first_token is not None and turn.mark in own
    ]


def _mark_in(prompt: str) -> str:
    """Return the last mark in the request. The marks of earlier turns stand before it."""
    start, end = prompt.rfind("Turn "), prompt.rfind(" of the load.")
    return prompt[start : end + len(" of the load.")] if 0 <= start < end else ""


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest of the values that at least `percent` percent of the values do not
    exceed. Return infinity if there are no values."""
    if not values:
        return math.inf
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]
