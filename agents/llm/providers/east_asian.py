"""Keeps a model from writing East Asian scripts if its request contains none.

Qwen sometimes writes Chinese within an English sentence. For prose, llama.cpp is given a grammar
without these scripts, and for JSON a pattern for each string.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from agents.llm.providers.base import Message

# The Chinese, Japanese and Korean characters, with their punctuation and their wide letters.
_EAST_ASIAN = (
    "\u1100-\u11ff\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f"
    "\uff00-\uffef\U00020000-\U0003ffff"
)
_is_written = re.compile(f"[{_EAST_ASIAN}]").search

PROSE_WITHOUT_IT = f"root ::= [^{_EAST_ASIAN}]*"

# A pattern for one character of a string. llama.cpp compares it with the JSON text, so the pattern
# has to include JSON's escapes. If a string has a pattern, llama.cpp ignores `maxLength`, so the
# pattern of a whole string also limits the length.
_CHARACTER = rf'([^"\\\x7F\x00-\x1F{_EAST_ASIAN}]|[\\]["\\/bfnrt])'


def is_east_asian(messages: Iterable[Message]) -> bool:
    """Return whether a request has East Asian characters, so that the model may write them."""
    return any(_is_written(message.content) for message in messages)


def without_east_asian(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with a pattern for each string, except for strings whose values the schema
    lists."""
    inside = {key: _walk(value) for key, value in schema.items() if key != "properties"}
    if "properties" in schema:
        parts = schema["properties"].items()
        inside["properties"] = {name: without_east_asian(part) for name, part in parts}
    return inside | _pattern_of(schema)


def _walk(value: Any) -> Any:
    """Return the value of a keyword of a schema. Patterns are added to the schemas inside this
    value."""
    if isinstance(value, Mapping):
        return without_east_asian(value)
    return [_walk(part) for part in value] if isinstance(value, list) else value


def _pattern_of(schema: Mapping[str, Any]) -> dict[str, str]:
    if schema.get("type") != "string" or "enum" in schema:
        return {}
    longest = schema.get("maxLength")
    return {"pattern": f"^{_CHARACTER}{'*' if longest is None else f'{{0,{longest}}}'}$"}
