"""A prompt that was sent, taken apart again: which text of its messages was which layer.

An artifact keeps the messages word for word and a record of each layer with its size. Older records
have no sizes, so that their layers are found by their headings. Laid end to end, the parts are the
messages, letter for letter.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.prompting.budget import weigh

# Between layers of one message; it counts to the layer before it.
SEPARATOR = "\n\n"

# Where a layer begins: the message and the character in it.
_Place = tuple[int, int]


@dataclass(frozen=True)
class PromptPart:
    """One layer as it was sent, with what its record says became of it.

    `kept`, `shortened` and `dropped` count the layer's pieces. A part without a `name` is text
    that no record describes.
    """

    role: str
    text: str
    name: str = ""
    tokens: int = 0
    kept: int = 0
    shortened: int = 0
    dropped: int = 0
    reason: str = ""

    @property
    def pieces(self) -> int:
        return self.kept + self.shortened + self.dropped

    @property
    def was_trimmed(self) -> bool:
        return bool(self.shortened or self.dropped)


def split_prompt(
    messages: Sequence[Mapping[str, Any]], records: Sequence[Mapping[str, Any]]
) -> list[PromptPart]:
    """The layers of these messages in order, by their sizes, else by their headings.

    A layer that was dropped whole is a part without text. A heading that a story happens to
    contain is told from the real one by the layer's estimated tokens.
    """
    texts = [str(message.get("content", "")) for message in messages]
    roles = [str(message.get("role", "")) for message in messages]
    return _split_by_sizes(roles, texts, records) or _split_by_headings(roles, texts, records)


def _split_by_sizes(
    roles: list[str], texts: list[str], records: Sequence[Mapping[str, Any]]
) -> list[PromptPart]:
    """Empty where the records have no sizes, or none that fit."""
    parts: list[PromptPart] = []
    message = begin = 0
    for record in records:
        figures = _figures(record)
        if not figures["kept"] and not figures["shortened"]:
            role = roles[max(message - 1, 0)] if roles else ""
            parts.append(PromptPart(role, "", **figures))
            continue
        if message == len(texts) or "characters" not in record:
            return []
        role, text = roles[message], texts[message]
        end = begin + _number(record, "characters")
        is_last = end == len(text)
        if not is_last:
            if not text.startswith(SEPARATOR, end):
                return []
            end += len(SEPARATOR)
        parts.append(PromptPart(role, text[begin:end], **figures))
        message, begin = (message + 1, 0) if is_last else (message, end)
    return parts if message == len(texts) else []


def _split_by_headings(
    roles: list[str], texts: list[str], records: Sequence[Mapping[str, Any]]
) -> list[PromptPart]:
    places = _find_places(texts, records)
    parts: list[PromptPart] = []
    for at, (place, record) in enumerate(places):
        end = places[at + 1][0] if at + 1 < len(places) else (len(texts), 0)
        pieces = _between(texts, place, end)
        for number, (message, text) in enumerate(pieces):
            known = _figures(record) if number == 0 else {}
            parts.append(PromptPart(roles[message], text, **known))
    return parts


def shared_characters(
    messages: Sequence[Mapping[str, Any]], earlier: Sequence[Mapping[str, Any]]
) -> int:
    """How many characters of the prompt's start the earlier prompt began with too."""
    shared = 0
    for message, before in zip(messages, earlier, strict=False):
        if message.get("role") != before.get("role"):
            break
        text, known = str(message.get("content", "")), str(before.get("content", ""))
        shared += _common_start(text, known)
        if text != known:
            break
    return shared


def characters_of(messages: Sequence[Mapping[str, Any]]) -> int:
    return sum(len(str(message.get("content", ""))) for message in messages)


def _common_start(text: str, other: str) -> int:
    pairs = enumerate(zip(text, other, strict=False))
    shorter = min(len(text), len(other))
    return next((at for at, (one, two) in pairs if one != two), shorter)


def _find_places(
    texts: list[str], records: Sequence[Mapping[str, Any]]
) -> list[tuple[_Place, Mapping[str, Any]]]:
    """Where each layer begins; one that cannot be found stays with the layer before it."""
    if not texts:
        return []
    tokens = sum(_number(record, "tokens") for record in records)
    weight_per_token = sum(map(weigh, texts)) / tokens if tokens else 1.0
    places: list[tuple[_Place, Mapping[str, Any]]] = [((0, 0), records[0] if records else {})]
    for record in records[1:]:
        begin, before = places[-1]
        found = _headings(texts, str(record.get("name", "")), begin)
        if found:
            wanted = _number(before, "tokens") * weight_per_token
            place = min(found, key=lambda one: abs(_weight(texts, begin, one) - wanted))
        elif begin[0] + 1 < len(texts):
            # Without a heading of its own, a layer begins a message.
            place = (begin[0] + 1, 0)
        else:
            continue
        places.append((place, record))
    return places


def _headings(texts: list[str], name: str, after: _Place) -> list[_Place]:
    heading = re.compile(rf"(?:\A|(?<=\n\n))## {re.escape(name)}\n")
    return [
        (message, match.start())
        for message in range(after[0], len(texts))
        for match in heading.finditer(texts[message])
        if (message, match.start()) > after
    ]


def _between(texts: list[str], begin: _Place, end: _Place) -> list[tuple[int, str]]:
    """The text from one place to another, message by message."""
    pieces = []
    for message in range(begin[0], min(end[0] + 1, len(texts))):
        first = begin[1] if message == begin[0] else 0
        last = end[1] if message == end[0] else len(texts[message])
        if last > first or message == begin[0]:
            pieces.append((message, texts[message][first:last]))
    return pieces


def _weight(texts: list[str], begin: _Place, end: _Place) -> float:
    return sum(weigh(text) for _, text in _between(texts, begin, end))


def _figures(record: Mapping[str, Any]) -> dict[str, Any]:
    counts = {name: _number(record, name) for name in ("tokens", "kept", "shortened", "dropped")}
    words = {name: str(record.get(name, "")) for name in ("name", "reason")}
    return {**words, **counts}


def _number(record: Mapping[str, Any], name: str) -> int:
    value = record.get(name, 0)
    return value if isinstance(value, int) else 0
