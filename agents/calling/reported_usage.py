"""Checks whether the tokens that a server reports for a call can be true."""

import json
import math
from dataclasses import dataclass, replace

from agents.providers.base import ModelRequest, Usage

# The most tokens that a server may add to the messages, such as the marks of its template or a
# date.
_ADDED_TOKENS = 1_000
# The factor and the number of tokens by which a server may exceed its output limit. Some servers
# count the marks at the end of a reply, or check the limit only now and then.
_OVERSHOOT, _OVERSHOOT_TOKENS = 1.25, 64


@dataclass(frozen=True)
class MostTokens:
    """The most tokens that a call can have read and written. Larger numbers cannot be true."""

    read: int
    written: int


def most_tokens(request: ModelRequest, *, weight: float, window: int | None) -> MostTokens:
    """Return the most tokens that a call can have taken if the text of its request has this weight.

    A token has at least one byte, and the weight of a text is at least its number of bytes. So
    there is a bound even if the window is not known and `window` is None.
    """
    schema = json.dumps(request.json_schema) if request.json_schema else ""
    read = math.ceil(weight) + len(schema) + _ADDED_TOKENS
    written = int(request.max_output_tokens * _OVERSHOOT) + _OVERSHOOT_TOKENS
    return MostTokens(read if window is None else min(window, read), written)


def believed(usage: Usage | None, most: MostTokens) -> Usage | None:
    """Return the report if it can be true.

    Returns None if there is no report, or if the call cannot have used so many tokens. An
    impossible number of cached tokens is set to 0, and the rest of the report is kept.
    """
    if usage is None:
        return None
    if not (0 <= usage.input_tokens <= most.read and 0 <= usage.output_tokens <= most.written):
        return None
    is_possible = 0 <= usage.cached_tokens <= usage.input_tokens
    return usage if is_possible else replace(usage, cached_tokens=0)
