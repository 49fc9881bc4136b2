"""Measures how well the program estimates the tokens of a request before it is sent."""

import re
from collections import Counter
from collections.abc import Sequence
from statistics import mean

from bench.figure import Figure

# How many of an agent's first calls do not count, because the estimate learns from them.
TEACHING_CALLS = 5
LARGEST_ERROR = 0.05

_TOKEN = re.compile(r"[^\W\d_]{1,4}|\d{1,3}|(?:[^\w\s]|_){1,4}|\n+")


def count_tokens(text: str) -> int:
    """Return the number of tokens by a stand-in tokenizer.

    A token is at most four letters or marks, at most three digits, or a row of line breaks. A real
    tokenizer knows whole words. With either of them, the number of tokens is not in proportion to
    the number of characters.
    """
    return sum(1 for _ in _TOKEN.finditer(text))


def estimate_figure(estimates: Sequence[tuple[int | None, float, int]]) -> Figure | None:
    """Return the figure, or None if there are too few calls.

    `estimates` has for each call of a model its agent, and the estimated and the counted tokens.
    """
    calls = Counter[int | None]()
    errors = []
    for agent_id, guess, counted in estimates:
        calls[agent_id] += 1
        if calls[agent_id] > TEACHING_CALLS:
            errors.append(abs(guess - counted) / counted)
    if not errors:
        return None
    return Figure(
        f"Token estimate after {TEACHING_CALLS} calls of an agent: its error",
        max(errors),
        f"worst {max(errors):.1%}, mean {mean(errors):.1%} of {len(errors)} prompts",
        f"at most {LARGEST_ERROR:.0%}",
        max(errors) <= LARGEST_ERROR,
    )
