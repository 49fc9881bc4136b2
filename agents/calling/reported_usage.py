"""Checks whether the numbers of tokens that a server reports for a call can be true."""

import json
import math
from dataclasses import dataclass, replace

from agents.providers.base import ModelRequest, Usage

# The most tokens that a server may add to the messages, such as its chat template or a date.
_ADDED_TOKENS = 1_000
# A server may exceed its output limit by this factor and by this number of tokens. Some servers
# count the marks at the end of a reply, or check the limit only now and then.
_OVERSHOOT, _OVERSHOOT_TOKENS = 1.25, 64


@dataclass(frozen=True)
class MostTokens:
    """The most tokens that a call can have read and written. Larger numbers cannot be true."""

    read: int
    written: int


def most_tokens(request: ModelRequest, *, weight: float, window: int | None) -> MostTokens:
    """Return the most tokens that a call can have read and written. `weight` is the weight of its
    request.

    Each token has at least one byte, and a text has at most as many bytes as its weight. So the
    tokens have a bound even if the window is not known and `window` is None.
    """
    schema = json.dumps(request.json_schema) if request.json_schema else ""
    read = math.ceil(weight) + len(schema) + _ADDED_TOKENS
    written = int(request.max_output_tokens * _OVERSHOOT) + _OVERSHOOT_TOKENS
    return MostTokens(read if window is None else min(window, read), written)


def believed(usage: Usage | None, most: MostTokens) -> Usage | None:
    """Return the report if it can be true.

    Returns None if there is no report, or if the call cannot have used so many tokens. If only the
    number of cached tokens is impossible, the report is returned with 0 cached tokens.
    """
    if usage is None:
        return None
    if not (0 <= usage.input_tokens <= most.read and 0 <= usage.output_tokens <= most.written):
        return None
    is_possible = 0 <= usage.cached_tokens <= usage.input_tokens
    return usage if is_possible else replace(usage, cached_tokens=0)
