"""Shortens texts that a grammar has cut off within a word, so that each ends with its last complete
word.

If a server turns the schema into a grammar, a text ends at its maximum length, even within a word.
But memory must not say "the lanter" for "the lantern". The record of the call keeps the original
reply.
"""

from collections.abc import Mapping
from typing import Any

from sessions.language.words import is_unspaced

_ELLIPSIS = "…"
# At most this many characters are removed at the end of a text.
_LONGEST_WORD = 30


def end_at_words(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return the value. Each text in it that is as long as its `maxLength` allows is shortened to
    its last complete word."""
    match value:
        # If a text is longer than `maxLength`, the server used no grammar, so the text was not cut.
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
    is_word = text[-1:].isalnum() and not is_unspaced(text[-1:]) and len(piece) <= _LONGEST_WORD
    if not space or not is_word:
        return text
    return words.rstrip(" ,;:-(") + _ELLIPSIS
