"""Ends texts that a grammar has cut off at their last whole word.

A server that turns the schema into a grammar ends a text at its maximum length, even within a word,
and memory must not say "the lanter". The record of the call keeps the original reply.
"""

from collections.abc import Mapping
from typing import Any

_ELLIPSIS = "…"
# A longer piece without a space is no word, because some languages have no spaces.
_LONGEST_WORD = 30


def end_at_words(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return the value with each text that fills its `maxLength` ended at its last whole word."""
    match value:
        # A longer text shows that the server used no grammar.
        case str() if len(value) == schema.get("maxLength"):
            return _end_at_word(value)
        case dict():
            parts = schema.get("properties", {})
            return {name: end_at_words(part, parts.get(name, {})) for name, part in value.items()}
        case list() if isinstance(items := schema.get("items"), Mapping):
            return [end_at_words(entry, items) for entry in value]
        case _:
            return value


def _end_at_word(text: str) -> str:
    words, space, piece = text.rpartition(" ")
    if not text[-1:].isalnum() or not space or len(piece) > _LONGEST_WORD:
        return text
    return words.rstrip(" ,;:-(") + _ELLIPSIS
