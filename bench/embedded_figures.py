"""Makes the figures of a chapter on the embedded model: the time until each reply begins, and the
causes of this time."""

from collections.abc import Sequence
from statistics import mean, median
from typing import Any

from bench.figure import Figure
from bench.token_figures import estimate_figure

MOST_SECONDS = 6.0
# The target, in seconds, for the median time to the first token. The first prompt of each character
# does not count. The target applies only if the pause between prompts is at most
# WARM_PAUSE_SECONDS.
MOST_WARM_SECONDS = 3.0
WARM_PAUSE_SECONDS = 10.0
CHARACTERS = 3
# The target for the share of a request that the model server has in its cache. From one request of
# a character to the next, only the end changes, so the cache should have far more than half of it.
LEAST_CACHED = 0.5


def embedded_figures(
    first_tokens: Sequence[float],
    reply_words: Sequence[int],
    calls: Sequence[dict[str, Any]],
    *,
    pause_seconds: float,
) -> list[Figure]:
    """Return the figures.

    `first_tokens` has for each prompt the seconds until the reply began. `calls` are the model
    calls as the API returns them, oldest first.
    """
    estimates = [
        (one["agent_id"], one["estimated_tokens"], one["input_tokens"])
        for one in calls
        if one["input_tokens"] and one["estimated_tokens"]
    ]
    estimate = estimate_figure(estimates)
    figures = [
        _first_token(first_tokens),
        _warm(first_tokens[CHARACTERS:], pause_seconds),
        Figure(
            "Embedded model: words of a reply, mean", mean(reply_words), f"{mean(reply_words):.0f}"
        ),
        *_cached(calls),
    ]
    return [*figures, estimate] if estimate else figures


def _first_token(seconds: Sequence[float]) -> Figure:
    return Figure(
        "Embedded model: median time to the first token",
        median(seconds),
        f"{median(seconds):.2f} s (worst {max(seconds):.2f} s)",
        f"at most {MOST_SECONDS:.0f} s",
        median(seconds) <= MOST_SECONDS,
    )


def _warm(seconds: Sequence[float], pause_seconds: float) -> Figure:
    has_target = pause_seconds <= WARM_PAUSE_SECONDS
    return Figure(
        f"Embedded model: the same once warm, {pause_seconds:.0f} s between prompts",
        median(seconds),
        f"{median(seconds):.2f} s of {len(seconds)} prompts",
        f"at most {MOST_WARM_SECONDS:.0f} s" if has_target else "",
        median(seconds) <= MOST_WARM_SECONDS if has_target else None,
    )


def _cached(calls: Sequence[dict[str, Any]]) -> list[Figure]:
    """Return a figure of the share of the requests' tokens that the model server had in its cache.

    The model server itself reports this share. Its cache has tokens that the server read for an
    earlier request or while the engine read ahead.
    """
    replies = [one for one in calls if one["turn_id"] and one["input_tokens"]]
    read = sum(one["input_tokens"] for one in replies[CHARACTERS:])
    if not read:
        return []
    share = sum(one["cached_tokens"] or 0 for one in replies[CHARACTERS:]) / read
    return [
        Figure(
            "Embedded model: tokens of characters' prompts that its server had in its cache",
            share,
            f"{share:.0%} of {read:,}",
            f"at least {LEAST_CACHED:.0%}",
            share >= LEAST_CACHED,
        )
    ]
