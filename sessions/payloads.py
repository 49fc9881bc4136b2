"""Checks objects that are stored as JSON, and says in words what is wrong with values that were
sent."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from pydantic import BaseModel, create_model
from pydantic_core import ErrorDetails

from sessions.exceptions import InvalidInput
from sessions.language.text import scrub_reply, why_not_text

_Model = TypeVar("_Model", bound=BaseModel)

# Lists and objects can be stored if they are nested at most this deeply. Memory blocks need only
# five levels.
MAX_DEPTH = 20
# One object has at most this many keys. The limits on a mode's setup and on a prompt's `given`
# leave no room for more keys.
MAX_KEYS = 20_000

# The words for what is wrong with a value, by pydantic's type of the error or by the beginning of
# several types. Pydantic's own sentences name classes of the program, and words of Python.
_PROBLEMS = {
    "missing": "is missing",
    "extra_forbidden": "is no key of this format",
    "literal_error": "must be {expected}",
    "string_type": "must be text",
    "string_unicode": "holds characters that are not text",
    "string_too_long": "is longer than {max_length:,} characters",
    "string_too_short": "must not be empty",
    "int_parsing_size": "has too many digits",
    "int_": "must be a whole number",
    "float_": "must be a number",
    "finite_number": "must be a finite number",
    "bool_": "must be true or false",
    "uuid_": "must be an id",
    "greater_than_equal": "must be at least {ge:,}",
    "greater_than": "must be more than {gt:,}",
    "less_than_equal": "must be at most {le:,}",
    "less_than": "must be less than {lt:,}",
    "list_type": "must be a list",
    "too_long": "has more than {max_length:,} entries",
    "too_short": "must have an entry",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "json_invalid": "is no JSON",
}
# The words for a value that is too short although it is not empty.
_TOO_SHORT = {
    "string_too_short": "must have at least {min_length:,} characters",
    "too_short": "must have at least {min_length:,} entries",
}


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
            if problem := why_not_text(value):
                return f"a text holds characters that are not text: {problem}"
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


def scrub_payload(payload: dict[str, Any]) -> dict[str, Any]:
    """Return an object that a model wrote, with each key and text as `scrub_reply` returns it. An
    object that is nested too deeply is returned as it is, because it is refused anyway."""
    try:
        return cast(dict[str, Any], _scrubbed(payload))
    except RecursionError:
        return payload


def _scrubbed(value: Any) -> Any:
    if isinstance(value, str):
        return scrub_reply(value)
    if isinstance(value, dict):
        return {_scrubbed(key): _scrubbed(one) for key, one in value.items()}
    return [_scrubbed(one) for one in value] if isinstance(value, list) else value


def problem_in_words(error: ErrorDetails) -> str:
    """Return what is wrong with a value, as the end of a sentence that begins with its place."""
    kind, bounds = error["type"], error.get("ctx", {})
    if kind == "value_error":
        # The message comes from a validator of the program.
        return error["msg"].removeprefix("Value error, ")
    if bounds.get("field_type") == "Value" and kind in ("too_long", "too_short"):
        # Pydantic uses this name for a text that a validator of the program has read.
        kind = f"string_{kind}"
    problems = _TOO_SHORT if bounds.get("min_length", 1) > 1 else _PROBLEMS
    told = problems.get(kind) or next(
        (text for begin, text in problems.items() if kind.startswith(begin)), "is not acceptable"
    )
    return told.format(**bounds)


def with_fields(fields: Mapping[str, tuple[Any, Any]]) -> Callable[[type[_Model]], type[_Model]]:
    """Return a decorator that adds fields to a class of objects, after its own. Each has a type and
    a default, as pydantic's `create_model` takes them."""

    def add(model: type[_Model]) -> type[_Model]:
        about: dict[str, Any] = {"__doc__": model.__doc__, "__module__": model.__module__}
        about |= fields
        return create_model(model.__name__, __base__=model, **about)

    return add


def place_in_words(place: Sequence[int | str]) -> str:
    """Return the place of a value as programs write it, such as `characters[0].name`."""
    told = "".join(
        f"[{part}]" if isinstance(part, int) else f".{str(part)[:100]}" for part in place
    )
    return told.removeprefix(".")
