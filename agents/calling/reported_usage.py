"""What servers report of a call's tokens, as far as it can be true."""

import json
import math
from dataclasses import dataclass, replace

from agents.providers.base import ModelRequest, Usage

# What a server may add to the messages: the marks of its chat template, a date, words of its own.
_ADDED_TOKENS = 1_000
# By how much a server may pass the limit that it was given: some count end marks, or look in steps.
_OVERSHOOT, _OVERSHOOT_TOKENS = 1.25, 64


@dataclass(frozen=True)
class MostTokens:
    """The most that a call can have cost, whatever is reported or estimated of it."""

    read: int
    written: int


def most_tokens(request: ModelRequest, *, weight: float, window: int | None) -> MostTokens:
    """`weight` is the prompt's. A token has at least one byte, and no text weighs less than its
    bytes: this bounds a report also where `window` is None, because nobody has said it.
    """
    schema = json.dumps(request.json_schema) if request.json_schema else ""
    read = math.ceil(weight) + len(schema) + _ADDED_TOKENS
    written = int(request.max_output_tokens * _OVERSHOOT) + _OVERSHOOT_TOKENS
    return MostTokens(read if window is None else min(window, read), written)


def believed(usage: Usage | None, most: MostTokens) -> Usage | None:
    """The report, or None where there is none and where the call cannot have cost so much.

    What cannot have come from a cache makes only that part of a report untrue.
    """
    if usage is None:
        return None
    if not (0 <= usage.input_tokens <= most.read and 0 <= usage.output_tokens <= most.written):
        return None
    is_possible = 0 <= usage.cached_tokens <= usage.input_tokens
    return usage if is_possible else replace(usage, cached_tokens=0)
