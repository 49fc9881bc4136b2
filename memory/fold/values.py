"""Reads the values of a payload, where keys may be missing and values may have any type.

Each function skips what it cannot understand.
"""

from collections.abc import Iterator
from typing import Any

from memory.blocks.same_names import says_nothing, split_names

# The deepest nesting that is read. No stored payload is nested deeper.
_MAX_DEPTH = 20
# A whole number is read if it has at most this many bits. Python may refuse to write a larger
# number as text.
_MAX_BITS = 10_000
# Keys that say nothing about their value. Small models wrap a fact in an object with such a key.
_WRAPPERS = frozenset({"canon", "canon_lock", "fact", "lock", "name", "text", "truth", "value"})


def entry_of(payload: dict[str, Any], key: str) -> dict[str, Any]:
    value = payload.get(key)
    return value if isinstance(value, dict) else {}


def entries_of(payload: dict[str, Any], key: str, main: str) -> list[dict[str, Any]]:
    """Return the list under the key as objects. An entry that is plain text becomes an object with
    the text in the field `main`."""
    value = payload.get(key)
    entries = []
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict):
            entries.append(one)
        elif text := _as_text(one):
            entries.append({main: text})
    return entries


def numbered(payload: dict[str, Any], key: str, main: str) -> Iterator[tuple[int, dict[str, Any]]]:
    return enumerate(entries_of(payload, key, main), 1)


def names_of(entry: dict[str, Any], key: str) -> list[str]:
    """Return the names of people under the key. A plain text such as "Mara and Tom" is split into
    names. An entry of a list is always one name."""
    value = entry.get(key)
    found = texts_of(entry, key) if isinstance(value, list) else split_names(text_of(entry, key))
    return list(dict.fromkeys(name for name in found if not says_nothing(name)))


def text_of(entry: dict[str, Any], key: str) -> str:
    return _as_text(entry.get(key))


def said_in(entry: dict[str, Any], key: str) -> str:
    """Return the text under the key, or "" if the text is a filler such as "none"."""
    text = text_of(entry, key)
    return "" if says_nothing(text) else text


def texts_of(entry: dict[str, Any], key: str) -> list[str]:
    value = entry.get(key)
    texts = [_as_text(one) for one in (value if isinstance(value, list) else [value])]
    return [text for text in texts if text]


def statements_in(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield every fact of canon in this value, which may be a list of nested lists."""
    if isinstance(value, list) and depth < _MAX_DEPTH:
        for one in value:
            yield from statements_in(one, depth + 1)
    elif not isinstance(value, bool) and (text := _as_text(value)):
        yield text


def _as_text(value: Any, depth: int = 0) -> str:
    """Return a JSON value as one line of text."""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() < _MAX_BITS else ""
    if depth >= _MAX_DEPTH:
        return ""
    if isinstance(value, list):
        return ", ".join(text for one in value if (text := _as_text(one, depth + 1)))
    return _object_as_text(value, depth + 1) if isinstance(value, dict) else ""


def _object_as_text(value: dict[str, Any], depth: int) -> str:
    """Return an object as text such as "since: spring". A key with an empty value is written
    without a colon."""
    parts = []
    for key, one in value.items():
        name, text = _as_text(key), _as_text(one, depth)
        if name.casefold() not in _WRAPPERS:
            text = f"{name}: {text}" if name and text else name or text
        parts.append(text)
    return "; ".join(part for part in parts if part)
