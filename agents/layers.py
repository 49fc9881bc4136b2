"""A prompt as an ordered list of named layers, fitted into a model's budget.

The order is the caller's and never changes here: stable text first, so that prefix caches work.
What does not fit gives way in the order of `gives_way`, each layer by its own rule.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Literal

from agents.budget import TOKENS_PER_MESSAGE, weigh
from agents.exceptions import PromptTooLong
from agents.providers.base import Message


class Trim(Enum):
    NEVER = "never"
    OLDEST_FIRST = "oldest first"
    # Oldest pieces take their brief form first, and are dropped only when all of them have.
    CONDENSE = "condense"
    # The same, but nothing is dropped.
    SHORTEN = "shorten"


@dataclass(frozen=True)
class Piece:
    """A part of a layer that is kept, shortened to `brief`, or dropped as a whole.

    One that `must_stay` stays whole, whatever its layer's rule is.
    """

    text: str
    brief: str = ""
    must_stay: bool = False


def keep_last(pieces: Sequence[Piece], count: int) -> tuple[Piece, ...]:
    """The same pieces, the last `count` of which must stay."""
    newest = len(pieces) - count
    return tuple(
        replace(piece, must_stay=piece.must_stay or at >= newest) for at, piece in enumerate(pieces)
    )


@dataclass(frozen=True)
class Layer:
    """A named part of a prompt.

    `gives_way` ranks layers: the lowest is trimmed first. `step` is how many pieces go at a time
    (few changes of a layer's start spare prefix caches). `share` caps the layer at a part of the
    budget whatever else there is.
    """

    name: str
    pieces: tuple[Piece, ...]
    role: Literal["system", "user", "assistant"] = "user"
    has_heading: bool = True
    trim: Trim = Trim.NEVER
    gives_way: int = 0
    step: int = 1
    share: float | None = None

    @cached_property
    def text(self) -> str:
        body = "\n\n".join(piece.text for piece in self.pieces)
        return f"## {self.name}\n{body}" if self.has_heading else body

    @cached_property
    def weight(self) -> float:
        return weigh(self.text)


def text_layer(
    name: str,
    text: str,
    *,
    role: Literal["system", "user", "assistant"] = "user",
    has_heading: bool = True,
) -> Layer:
    """A layer of one piece that is never trimmed."""
    return Layer(name, (Piece(text),), role=role, has_heading=has_heading)


@dataclass(frozen=True)
class LayerRecord:
    """What became of one layer, for the artifact."""

    name: str
    tokens: int
    kept: int
    shortened: int
    dropped: int


@dataclass(frozen=True)
class AssembledPrompt:
    messages: tuple[Message, ...]
    records: tuple[LayerRecord, ...]
    weight: float


def assemble(
    layers: Sequence[Layer], *, budget_tokens: int, weight_per_token: float
) -> AssembledPrompt:
    """Fit the layers into the budget; raises PromptTooLong when their floors do not fit."""

    def tokens_of(layer: Layer) -> float:
        return layer.weight / weight_per_token

    fitted = [
        layer if layer.share is None else _trim(layer, layer.share * budget_tokens, tokens_of)
        for layer in layers
        if layer.pieces
    ]
    available = budget_tokens - TOKENS_PER_MESSAGE * len(fitted)
    for at in sorted(range(len(fitted)), key=lambda i: fitted[i].gives_way):
        others = sum(tokens_of(layer) for i, layer in enumerate(fitted) if i != at)
        fitted[at] = _trim(fitted[at], available - others, tokens_of)
    total = sum(tokens_of(layer) for layer in fitted)
    if total > available:
        raise _too_long(fitted, tokens_of, total - available)
    originals = [layer for layer in layers if layer.pieces]
    return AssembledPrompt(
        messages=_merge(fitted),
        records=tuple(
            _record(before, after, round(tokens_of(after)))
            for before, after in zip(originals, fitted, strict=True)
        ),
        weight=sum(layer.weight for layer in fitted),
    )


def _trim(layer: Layer, room: float, tokens_of: Callable[[Layer], float]) -> Layer:
    """Shorten the layer by its rule until it has at most `room` tokens or its floor is reached."""
    if layer.trim in (Trim.CONDENSE, Trim.SHORTEN):
        for at, piece in enumerate(layer.pieces):
            if tokens_of(layer) <= room:
                return layer
            if piece.brief and piece.brief != piece.text and not piece.must_stay:
                shortened = (*layer.pieces[:at], Piece(piece.brief), *layer.pieces[at + 1 :])
                layer = replace(layer, pieces=shortened)
    if layer.trim in (Trim.CONDENSE, Trim.OLDEST_FIRST):
        while tokens_of(layer) > room and (oldest := _droppable(layer)[: layer.step]):
            kept = (piece for at, piece in enumerate(layer.pieces) if at not in oldest)
            layer = replace(layer, pieces=tuple(kept))
    return layer


def _droppable(layer: Layer) -> list[int]:
    return [at for at, piece in enumerate(layer.pieces) if not piece.must_stay]


def _too_long(
    layers: list[Layer], tokens_of: Callable[[Layer], float], excess: float
) -> PromptTooLong:
    longest = max(layers, key=tokens_of)
    return PromptTooLong(
        f"This is about {round(excess):,} tokens too long for the model's context window; "
        f"the longest part is {longest.name} with about {round(tokens_of(longest)):,}. "
        "Nothing was sent and your words are kept: shorten it, or use a model with a larger window."
    )


def _merge(layers: list[Layer]) -> tuple[Message, ...]:
    """Neighbours of one role are one message: some chat templates want roles to alternate."""
    messages: list[Message] = []
    for layer in layers:
        if messages and messages[-1].role == layer.role:
            content = f"{messages.pop().content}\n\n{layer.text}"
        else:
            content = layer.text
        messages.append(Message(layer.role, content))
    return tuple(messages)


def _record(before: Layer, after: Layer, tokens: int) -> LayerRecord:
    originals = {piece.text for piece in before.pieces}
    kept = sum(piece.text in originals for piece in after.pieces)
    return LayerRecord(
        name=before.name,
        tokens=tokens,
        kept=kept,
        shortened=len(after.pieces) - kept,
        dropped=len(before.pieces) - len(after.pieces),
    )
