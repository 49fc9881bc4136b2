"""Texts that a grammar cut off, ended at a whole word.

A server that turns the schema into a grammar closes a text at its longest, in the middle of a word
if need be, and memory must not say "the lanter". The reply as it came stays in its call's record.
"""

from collections.abc import Mapping
from typing import Any

_ELLIPSIS = "…"
# A longer piece without a space is not a word: some languages do without spaces.
_LONGEST_WORD = 30


def end_at_words(value: Any, schema: Mapping[str, Any]) -> Any:
    """The value, in which each text that fills its `maxLength` ends with its last whole word."""
    match value:
        # A longer one shows that no grammar held it.
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
