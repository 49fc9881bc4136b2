"""Checks objects that are stored as JSON."""

import json
import math
from collections.abc import Mapping
from typing import Any

from sessions.exceptions import InvalidInput

# The greatest depth of nested lists and objects that can be stored. Memory blocks need only five
# levels.
MAX_DEPTH = 20
# The most keys of one object. The limits on a mode's setup and on a prompt's `given` leave no room
# for more keys.
MAX_KEYS = 20_000


def why_not_storable(payload: Mapping[str, Any]) -> str:
    """Return the reason why the object cannot be stored as JSON, or "" if it can.

    Databases and files of chapters refuse NUL, lone surrogates, numbers that are not finite, deep
    nesting, and objects with too many keys.
    """
    pending: list[tuple[Any, int]] = [(payload, 1)]
    while pending:
        value, depth = pending.pop()
        if depth > MAX_DEPTH:
            return "the JSON object is nested too deeply"
        if isinstance(value, Mapping):
            if len(value) > MAX_KEYS:
                return f"an object has more than {MAX_KEYS:,} keys"
            value = [*value, *value.values()]
        if isinstance(value, list | tuple):
            pending += [(part, depth + 1) for part in value]
        elif isinstance(value, str):
            if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
                return "a text holds characters that are not text; leave them out"
        elif isinstance(value, float) and not math.isfinite(value):
            return "a number is not finite; write it as text"
        elif not (value is None or isinstance(value, int | float)):
            return "a value has no form in JSON"
    return ""


def check_stored_size(payload: Mapping[str, Any], *, most: int, label: str) -> None:
    """Raise InvalidInput if the object cannot be stored, or if it has more than `most` characters
    as JSON."""
    problem = why_not_storable(payload)
    if not problem and len(json.dumps(payload, ensure_ascii=False)) > most:
        problem = f"it has more than {most:,} characters"
    if problem:
        raise InvalidInput(f"{label} cannot be stored: {problem}.")
