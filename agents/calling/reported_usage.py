"""Checks whether the numbers of tokens that a server reports for a call can be true."""

import json
import math
from dataclasses import dataclass, replace

from agents.llm.providers.base import ModelRequest, Usage

# The most tokens that a server may add to the messages, such as its chat template or a date.
_ADDED_TOKENS = 1_000
# A token has at most one word of a text with blanks. So no text has fewer tokens than these
# fractions of its words and of its characters that are not ASCII.
_LEAST_OF_WORDS, _LEAST_OF_OTHERS = 0.5, 0.125
# A server may exceed its output limit by this factor and by this number of tokens. Some servers
# count the marks at the end of a reply, or check the limit only now and then.
_OVERSHOOT, _OVERSHOOT_TOKENS = 1.25, 64


@dataclass(frozen=True)
class PossibleTokens:
    """The most tokens that a call can have read and written, and the fewest that it can have read.
    Numbers beyond these bounds cannot be true."""

    read: int
    written: int
    least_read: int = 0


def possible_tokens(request: ModelRequest, *, weight: float, window: int | None) -> PossibleTokens:
    """Return the bounds of the tokens that a call can have read and written. `weight` is the weight
    of its request.

    Each token has at least one byte, and a text has at most as many bytes as its weight. So the
    tokens have a bound even if the window is not known and `window` is None. If a server counts
    only the text that it has not read before, or counts nothing, its report is below the lower
    bound.
    """
    schema = json.dumps(request.json_schema) if request.json_schema else ""
    read = math.ceil(weight) + len(schema) + _ADDED_TOKENS
    written = int(request.max_output_tokens * _OVERSHOOT) + _OVERSHOOT_TOKENS
    most = read if window is None else min(window, read)
    return PossibleTokens(most, written, min(most, _least_read(request)))


def told_too_few(usage: Usage | None, possible: PossibleTokens) -> int:
    """Return the reported number of tokens that were read, if the request must have more tokens
    than that. Otherwise return 0."""
    if usage is None or not 0 < usage.input_tokens < possible.least_read:
        return 0
    as_least = replace(usage, input_tokens=possible.least_read)
    return usage.input_tokens if believed(as_least, possible) else 0


def _least_read(request: ModelRequest) -> int:
    words = others = 0
    for message in request.messages:
        text = message.content
        words += len(text.split())
        others += 0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore"))
    return int(max(words * _LEAST_OF_WORDS, others * _LEAST_OF_OTHERS))


def believed(usage: Usage | None, possible: PossibleTokens) -> Usage | None:
    """Return the report if it can be true.

    Returns None if there is no report, or if the call cannot have used so many or so few tokens. If
    only the number of cached tokens is impossible, the report is returned with 0 cached tokens.
    """
    if usage is None:
        return None
    is_read_possible = possible.least_read <= usage.input_tokens <= possible.read
    if not (is_read_possible and 0 <= usage.output_tokens <= possible.written):
        return None
    is_possible = 0 <= usage.cached_tokens <= usage.input_tokens
    return usage if is_possible else replace(usage, cached_tokens=0)
