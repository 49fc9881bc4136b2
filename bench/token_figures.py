"""How well the program knows what a prompt costs before it is sent."""

import re
from collections import Counter
from collections.abc import Sequence
from statistics import mean

from bench.figure import Figure

# So many calls of an agent on a model teach the estimate.
TEACHING_CALLS = 5
LARGEST_ERROR = 0.05

_TOKEN = re.compile(r"[^\W\d_]{1,4}|\d{1,3}|(?:[^\w\s]|_){1,4}|\n+")


def count_tokens(text: str) -> int:
    """What a stand-in tokenizer makes of it: words and runs of marks in pieces of at most four,
    numbers of three digits, runs of line breaks. It knows no words, as real ones do; like theirs,
    its count is no constant share of the characters.
    """
    return sum(1 for _ in _TOKEN.finditer(text))


def estimate_figure(estimates: Sequence[tuple[int | None, float, int]]) -> Figure | None:
    """From the agent, the estimated and the counted tokens of each of a model's calls.

    None where they are too few.
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
