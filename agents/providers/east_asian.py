"""Keeps a model from the East Asian scripts that its prompt does not have: Qwen slips into Chinese
within an English sentence.

What it may write is told in llama.cpp's terms: a grammar for prose, patterns for the texts of JSON.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from agents.providers.base import Message

# Chinese, Japanese and Korean, with their marks and their wide letters.
_EAST_ASIAN = (
    "\u1100-\u11ff\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f"
    "\uff00-\uffef\U00020000-\U0003ffff"
)
_is_written = re.compile(f"[{_EAST_ASIAN}]").search

PROSE_WITHOUT_IT = f"root ::= [^{_EAST_ASIAN}]*"

# One character of a text. llama.cpp lays the pattern over the JSON itself, so that it has to say
# what JSON escapes, and forgets the schema's `maxLength` for it.
_CHARACTER = rf'([^"\\\x7F\x00-\x1F{_EAST_ASIAN}]|[\\]["\\/bfnrt])'


def is_east_asian(messages: Iterable[Message]) -> bool:
    """Whether anything of it stands in the prompt: then the model may write it, too."""
    return any(_is_written(message.content) for message in messages)


def without_east_asian(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with a pattern for each text that is free; what it names itself stays."""
    inside = {key: _walk(value) for key, value in schema.items() if key != "properties"}
    if "properties" in schema:
        parts = schema["properties"].items()
        inside["properties"] = {name: without_east_asian(part) for name, part in parts}
    return inside | _pattern_of(schema)


def _walk(value: Any) -> Any:
    """A value of a schema's keyword; a list may hold schemas."""
    if isinstance(value, Mapping):
        return without_east_asian(value)
    return [_walk(part) for part in value] if isinstance(value, list) else value


def _pattern_of(schema: Mapping[str, Any]) -> dict[str, str]:
    if schema.get("type") != "string" or "enum" in schema:
        return {}
    longest = schema.get("maxLength")
    return {"pattern": f"^{_CHARACTER}{'*' if longest is None else f'{{0,{longest}}}'}$"}
