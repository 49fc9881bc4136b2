"""What servers report of a call's tokens, as far as it can be true."""

import json

from agents.providers.base import ModelRequest, Usage

# What a server may add to the messages: the marks of its chat template, a date, words of its own.
_ADDED_TOKENS = 1_000
# By how much a server may pass the limit that it was given: some count end marks, or look in steps.
_OVERSHOOT, _OVERSHOOT_TOKENS = 1.25, 64


def believed(
    usage: Usage | None, request: ModelRequest, *, weight: float, context_window: int
) -> Usage | None:
    """The report, or None where there is none and where the call cannot have cost so much.

    `weight` is the prompt's. A token has at least one byte, and no text weighs less than its bytes:
    this bounds a report also where the window is large, or only guessed.
    """
    if usage is None:
        return None
    schema = json.dumps(request.json_schema) if request.json_schema else ""
    most_read = min(context_window, weight + len(schema) + _ADDED_TOKENS)
    most_written = request.max_output_tokens * _OVERSHOOT + _OVERSHOOT_TOKENS
    is_possible = (
        0 <= usage.cached_tokens <= usage.input_tokens <= most_read
        and 0 <= usage.output_tokens <= most_written
    )
    return usage if is_possible else None
