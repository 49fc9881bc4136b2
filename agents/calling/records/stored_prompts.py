"""Stores the requests of calls. A call's record lists the layers of its request, and each layer
lists the hashes of its texts.

A chapter stores each text only once, under its hash. So a turn adds only the texts that are new in
its request.
"""

import hashlib
import json
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, fields
from itertools import chain
from typing import Any
from zlib import crc32

from agents.llm.providers.base import Message, ToolCall
from agents.models import LLMArtifact, PromptText
from agents.prompting.sent_layers import SentLayer, join_layers

# A part of a layer with at least this many characters is stored as a text of its own. Shorter
# parts, such as lines of memory, are stored together, because each row takes about 150 bytes beside
# its text.
_LONG = 400
# The average number of shorter parts that are stored together as one text.
_TOGETHER = 8
# A query has at most this many hashes, because databases limit the parameters of a query.
_AT_A_TIME = 1_000
# The fields whose lines are stored as texts too. A long chapter leaves out hundreds of blocks, and
# mostly the same ones in each request.
_LINES = ("left_out", "record")
_DEFAULTS = {one.name: one.default for one in fields(SentLayer) if one.default is not MISSING}


def hash_messages(messages: Iterable[Message]) -> str:
    """Return the SHA-256 of the messages, which is an artifact's `input_hash`."""
    sent = [message.as_sent() for message in messages]
    return hashlib.sha256(json.dumps(sent).encode()).hexdigest()


def pack_layers(
    session_id: uuid.UUID, layers: Iterable[SentLayer]
) -> tuple[list[dict[str, Any]], list[PromptText]]:
    """Return the value for the field `layers` of an artifact, and the rows of the texts that are
    not stored yet."""
    texts: dict[str, str] = {}
    entries = [_entry_of(layer, texts) for layer in layers]
    stored = _read_texts(session_id, texts, "hash")
    return entries, [
        PromptText(session_id=session_id, hash=name, text=text)
        for name, text in texts.items()
        if name not in stored
    ]


def store_texts(texts: Iterable[PromptText]) -> None:
    """Store the texts in the same transaction as their artifact. Stored texts are never changed."""
    PromptText.objects.bulk_create(texts, ignore_conflicts=True)


def read_layers(artifact: LLMArtifact) -> tuple[SentLayer, ...]:
    """Return the layers of the call's request, with their texts word for word."""
    return read_layers_of([artifact])[artifact.pk]


def read_layers_of(artifacts: Sequence[LLMArtifact]) -> dict[uuid.UUID, tuple[SentLayer, ...]]:
    """Return the layers of several calls of one chapter, by the keys of the artifacts."""
    named = {
        name
        for one in artifacts
        for entry in one.layers
        for names in (entry.get(field, ()) for field in ("parts", *_LINES))
        for name in names
    }
    texts = _read_texts(artifacts[0].session_id, named, "text") if artifacts else {}
    return {one.pk: tuple(_layer_of(entry, texts) for entry in one.layers) for one in artifacts}


def read_messages(artifact: LLMArtifact) -> tuple[Message, ...]:
    """Return the messages as they were sent."""
    return join_layers(read_layers(artifact))


def _entry_of(layer: SentLayer, texts: dict[str, str]) -> dict[str, Any]:
    """Return the layer as it is stored, without default values. Add its texts to `texts`.

    Values with fields of their own, such as tool calls, become dictionaries.
    """
    values = {name: getattr(layer, name) for name in _DEFAULTS if name not in _LINES}
    unusual = {name: value for name, value in values.items() if value != _DEFAULTS[name]}
    gathered = list(_gathered(layer.parts, layer.separator))
    names = [_hash(text) for text in gathered]
    texts.update(zip(names, gathered, strict=True))
    if layer.tool_calls:
        unusual["tool_calls"] = [asdict(call) for call in layer.tool_calls]
    for field in _LINES:
        if lines := list(_gathered(getattr(layer, field), "\n")):
            unusual[field] = [_hash(text) for text in lines]
            texts.update(zip(unusual[field], lines, strict=True))
    return {"name": layer.name, "tokens": layer.tokens, **unusual, "parts": names}


def _layer_of(entry: Mapping[str, Any], texts: Mapping[str, str]) -> SentLayer:
    own = {name: entry[name] for name in _DEFAULTS if name in entry}
    if "tool_calls" in own:
        own["tool_calls"] = tuple(ToolCall(**call) for call in own["tool_calls"])
    for field in _LINES:
        if field in own:
            lines = (texts[name].split("\n") for name in own[field])
            own[field] = tuple(chain.from_iterable(lines))
    parts = tuple(texts[name] for name in entry.get("parts", ()))
    return SentLayer(name=entry["name"], parts=parts, **own)


def _gathered(parts: Iterable[str], separator: str) -> Iterator[str]:
    """Join neighbouring short parts of a layer, and yield the resulting longer parts.

    The content of a short part decides whether a longer part ends with it. So when a part is added
    or removed, only the longer part around it changes, and all others are already stored.
    """
    together: list[str] = []
    for part in parts:
        together.append(part)
        if len(part) >= _LONG or crc32(part.encode()) % _TOGETHER == 0:
            yield separator.join(together)
            together = []
    if together:
        yield separator.join(together)


def _hash(text: str) -> str:
    """Return a hash of the text, in 20 characters. It has 120 bits, which are enough to tell all
    texts of a chapter apart."""
    return urlsafe_b64encode(hashlib.blake2b(text.encode(), digest_size=15).digest()).decode()


def _read_texts(session_id: uuid.UUID, names: Iterable[str], field: str) -> dict[str, str]:
    """Return the value of this field for each stored text with one of these hashes, by hash."""
    asked = list(names)
    found: dict[str, str] = {}
    for at in range(0, len(asked), _AT_A_TIME):
        rows = PromptText.objects.filter(
            session_id=session_id, hash__in=asked[at : at + _AT_A_TIME]
        )
        found.update(rows.values_list("hash", field))
    return found
