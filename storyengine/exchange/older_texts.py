"""Writes files, and mends in them what older releases stored and no door takes today, so that each
export can be imported: characters that are no text, names that nobody could see or that turn the
direction of writing, and titles and words in which nothing can be seen."""

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from sessions.models import UNTITLED
from sessions.text import seen, why_no_name, with_replacements, without_turning

# The keys under which files have names of people and places. Other parts of a file repeat them.
_NAMED = frozenset({"name", "aliases", "location", "starting_place"})
# The keys of texts that must not be empty.
_TOLD = frozenset({"words", "text"})
_MARK = "\N{REPLACEMENT CHARACTER}"


def to_json(file: BaseModel) -> bytes:
    """Return the file as JSON in UTF-8. Reading this JSON gives the same values again, except for
    what is mended."""
    content = file.model_dump()
    renamed = {name: _mended_name(name) for name in _bad_names(content)}
    mended = _mend(content, renamed, key="")
    return json.dumps(mended, ensure_ascii=False, separators=(",", ":")).encode()


def _bad_names(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for inner, one in value.items():
            yield from _bad_names(one, inner)
    elif isinstance(value, list):
        for one in value:
            yield from _bad_names(one, key)
    elif isinstance(value, str) and key in _NAMED and why_no_name(value):
        yield value


def _mended_name(name: str) -> str:
    left = without_turning(name)
    return _MARK if why_no_name(left) or not left else left


def _mend(value: Any, renamed: dict[str, str], key: str) -> Any:
    if isinstance(value, dict):
        return {
            with_replacements(str(renamed.get(inner, inner))): _mend(one, renamed, inner)
            for inner, one in value.items()
        }
    if isinstance(value, list):
        return [_mend(one, renamed, key) for one in value]
    if not isinstance(value, str):
        return value
    text = with_replacements(renamed.get(value, value))
    if seen(text) == text:
        return text
    if key == "title":
        return UNTITLED
    return _MARK if key in _TOLD else text
