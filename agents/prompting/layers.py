"""Fits the layers of a request into the budget of a model.

The order of the layers is the caller's and is never changed. Stable text comes first, because
servers cache the beginnings of requests. Layers are trimmed in the order of `gives_way`, each by
its own rule.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Literal

from agents.exceptions import PromptTooLong
from agents.prompting.budget import TOKENS_PER_MESSAGE, weigh
from agents.prompting.escaping import without_forgeries
from agents.prompting.sent_layers import BLANK_LINE, Role, SentLayer, join_layers, with_heading
from agents.providers.base import Message, ToolCall

Tier = Literal["full", "medium", "minimal"]
TIERS: tuple[Tier, ...] = ("full", "medium", "minimal")


class Trim(Enum):
    """The rule by which a layer is trimmed. Pieces of the lowest rank are trimmed first."""

    NEVER = "never"
    OLDEST_FIRST = "oldest first"
    NEWEST_FIRST = "newest first"
    # Pieces are shortened, beginning with the oldest. Pieces are dropped only if all are short and
    # the layer is still too long.
    CONDENSE = "condense"
    # Pieces are shortened, beginning with the oldest. No piece is dropped.
    SHORTEN = "shorten"
    # All pieces are dropped together, or none.
    DROP = "drop"


# The layers whose texts the GM can shorten, with the words by which messages name these texts.
_EDITABLE = {
    "WORLD_TEXT": "the world text on Tab 1",
    "CHAPTER_TEXT": "the chapter text on Tab 1",
    "AGENT_IDENTITY": "the identity on Tab 1",
    "USER_PROMPT": "your prompt",
    "NARRATIVE_AGENT_DEFINITION": "the narrative agent's instructions on Tab 3",
}
# The layer with a text that is locked. A message names it last, because the GM can shorten this
# text only in a copy of the chapter.
_LOCKED = "AGENT_IDENTITY"
# The layers whose texts the GM cannot shorten, with the words by which messages name these texts.
_NOT_EDITABLE = {
    **dict.fromkeys(
        ("RECENT_CONTEXT", "RECENT_CONTEXT_CHUNK", "FULL_CHAPTER_CONTEXT"), "transcript"
    ),
    **dict.fromkeys(("STRUCTURED_MEMORY", "STRUCTURED_MEMORY_SO_FAR"), "memory"),
}


@dataclass(frozen=True)
class Piece:
    """A part of a layer. It is kept, or replaced by its short form `brief`, or dropped as a whole.

    A piece with `must_stay` is never trimmed. The pieces with `must_stay` are the floor of a layer.
    `text` and `brief` are escaped, so that nothing in them imitates a part of the request.
    `has_elements` says that the engine wrote the text and has escaped the words of others in it.
    `has_calls` says that the text explains the forms of tool calls, or that the model itself wrote
    the calls in it. If `heads` is not 0, the piece is the heading of so many pieces after it, and
    is dropped with the last of them. `block` and `place` are the words by which a record names the
    piece if it was left out, such as "Prompts 1-7" and "event 2".
    """

    text: str
    brief: str = ""
    must_stay: bool = False
    rank: int = 0
    has_elements: bool = False
    has_calls: bool = False
    heads: int = 0
    block: str = ""
    place: str = ""

    def __post_init__(self) -> None:
        # The texts are escaped here rather than when they are sent, because the weight must be the
        # weight of the escaped text.
        for name in ("text", "brief"):
            escaped = without_forgeries(
                getattr(self, name), has_elements=self.has_elements, has_calls=self.has_calls
            )
            object.__setattr__(self, name, escaped)

    @cached_property
    def weight(self) -> float:
        return weigh(self.text)

    @cached_property
    def shortened(self) -> "Piece":
        """The short form of the piece. It is cached, because many requests use it."""
        return replace(self, text=self.brief, brief="")


def keep_last(pieces: Sequence[Piece], count: int) -> tuple[Piece, ...]:
    """Return the pieces, with `must_stay` set on the last `count` pieces."""
    if not count:
        return tuple(pieces)
    newest = len(pieces) - count
    return tuple(
        replace(piece, must_stay=True) if at >= newest and not piece.must_stay else piece
        for at, piece in enumerate(pieces)
    )


@dataclass(frozen=True)
class Layer:
    """A named part of a request.

    Layers with a lower `gives_way` are trimmed first. Pieces are dropped in groups of `step`,
    because prefix caches work better if a layer changes seldom. With a `grain`, as much is dropped
    as makes up a multiple of this fraction of its room, for the same reason. `most_tokens` limits
    the layer to a number of tokens, even if there is room for more. `holds` is the fraction of the
    budget that the layer keeps until all layers that give way after it have been trimmed too.
    """

    name: str
    pieces: tuple[Piece, ...]
    role: Role = "user"
    has_heading: bool = True
    trim: Trim = Trim.NEVER
    gives_way: int = 0
    step: int = 1
    grain: float = 0
    most_tokens: int | None = None
    holds: float = 0
    separator: str = BLANK_LINE
    # The tool calls in a message of the assistant, in the form of the server's protocol. The next
    # field is used in a message of a tool: it is the id of the call whose result the message has.
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    @cached_property
    def text(self) -> str:
        if not self.pieces:
            return ""
        body = self.separator.join(piece.text for piece in self.pieces)
        return with_heading(self.name, body) if self.has_heading else body

    @cached_property
    def weight(self) -> float:
        calls = (f"{call.call_id}{call.name}{call.arguments}" for call in self.tool_calls)
        return weigh(self.text) + weigh("".join(calls))


def text_layer(
    name: str,
    text: str,
    *,
    role: Role = "user",
    has_heading: bool = True,
    has_elements: bool = False,
) -> Layer:
    """Return a layer of one piece that is never trimmed."""
    piece = Piece(text, has_elements=has_elements)
    return Layer(name, (piece,), role=role, has_heading=has_heading)


@dataclass(frozen=True)
class AssembledPrompt:
    """A request that fits the budget. `layers` includes the layers that were dropped."""

    layers: tuple[SentLayer, ...]
    weight: float

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        return join_layers(self.layers)


def assemble(
    layers: Sequence[Layer], *, budget_tokens: int, weight_per_token: float
) -> AssembledPrompt:
    """Fit the layers into the budget. Raises PromptTooLong if pieces that must stay do not fit."""

    def tokens_of(layer: Layer) -> float:
        return layer.weight / weight_per_token

    originals = [layer for layer in layers if layer.pieces]
    grains = [
        layer.grain * min(_limit(layer), budget_tokens) * weight_per_token for layer in originals
    ]
    limited = [
        _trim(layer, _limit(layer) * weight_per_token, grain)
        for layer, grain in zip(originals, grains, strict=True)
    ]
    fitted = list(limited)
    available = (budget_tokens - TOKENS_PER_MESSAGE * len(fitted)) * weight_per_token
    total = sum(layer.weight for layer in fitted)
    for is_last_resort in (False, True):
        for at in sorted(range(len(fitted)), key=lambda i: fitted[i].gives_way):
            if total <= available:
                break
            others = total - fitted[at].weight
            held = 0 if is_last_resort else limited[at].holds * budget_tokens * weight_per_token
            fitted[at] = _trim(limited[at], max(available - others, held), grains[at])
            total = others + fitted[at].weight
    if total > available:
        raise _too_long(fitted, tokens_of, (total - available) / weight_per_token)
    return AssembledPrompt(
        layers=tuple(
            _as_sent(before, after, round(tokens_of(after)), reason=_reason(before, within, after))
            for before, within, after in zip(originals, limited, fitted, strict=True)
        ),
        weight=total,
    )


def _limit(layer: Layer) -> float:
    """Return the most tokens that the layer may have, even if there is room for more."""
    return math.inf if layer.most_tokens is None else layer.most_tokens


def _trim(layer: Layer, room: float, grain: float) -> Layer:
    """Trim the layer by its rule until its weight is at most `room`, or until only pieces that must
    stay are left. With a `grain`, the weight that is dropped is at least a multiple of it."""
    if layer.weight <= room or layer.trim is Trim.NEVER:
        return layer
    pieces: dict[int, Piece] = dict(enumerate(layer.pieces))
    order = [at for at in _order_of_giving_way(layer) if not pieces[at].must_stay]
    weight = layer.weight
    if layer.trim in (Trim.CONDENSE, Trim.SHORTEN):
        for at in order:
            if weight <= room:
                break
            whole = pieces[at]
            if whole.brief:
                weight += whole.shortened.weight - whole.weight
                pieces[at] = whole.shortened
    if layer.trim is not Trim.SHORTEN:
        if grain:
            room = layer.weight - math.ceil((layer.weight - room) / grain) * grain
        while order and weight > room:
            going = order if layer.trim is Trim.DROP else _next_to_go(pieces, order, layer.step)
            for at in going:
                weight -= pieces.pop(at).weight + len(layer.separator)
            order = order[len(going) :]
        _drop_empty_headings(pieces)
    kept = tuple(pieces.values())
    return layer if kept == layer.pieces else replace(layer, pieces=kept)


def _drop_empty_headings(pieces: dict[int, Piece]) -> None:
    """Drop each heading of which all pieces were dropped."""
    headings = [at for at, piece in pieces.items() if piece.heads]
    for at in headings:
        if not any(other in pieces for other in range(at + 1, at + 1 + pieces[at].heads)):
            del pieces[at]


def _next_to_go(pieces: Mapping[int, Piece], order: Sequence[int], step: int) -> Sequence[int]:
    """Return the next pieces to drop: at most `step` pieces, all of the same rank."""
    rank = pieces[order[0]].rank
    return [at for at in order[:step] if pieces[at].rank == rank]


def _order_of_giving_way(layer: Layer) -> list[int]:
    newest_first = layer.trim is Trim.NEWEST_FIRST
    return sorted(
        (at for at, piece in enumerate(layer.pieces) if not piece.heads),
        key=lambda at: (layer.pieces[at].rank, -at if newest_first else at),
    )


def _reason(before: Layer, within: Layer, after: Layer) -> str:
    if after is before:
        return ""
    return "its limit is full" if after is within else "the window is full"


def _too_long(
    layers: list[Layer], tokens_of: Callable[[Layer], float], excess: float
) -> PromptTooLong:
    """Return the error for a request that is too long.

    Its message names the longest layer that the GM can shorten, or all such layers if one layer is
    not enough.
    """
    said = f"This is about {round(excess):,} tokens too long for the model's context window."
    kept = "Nothing was sent and your words are kept."
    parts = sorted(
        (layer for layer in layers if layer.name in _EDITABLE),
        key=lambda layer: (layer.name == _LOCKED, -tokens_of(layer)),
    )
    enough = [part for part in parts if tokens_of(part) > excess][:1]
    if not enough and sum(map(tokens_of, parts)) > excess:
        enough = parts
    if enough:
        named = " and ".join(
            f"{_EDITABLE[part.name]} (about {round(tokens_of(part)):,} tokens)" for part in enough
        )
        way_out = f"Shorten {named} by so much, or use a model with a larger window."
        return PromptTooLong(f"{said} {way_out} {kept}")
    longest = max(layers, key=tokens_of)
    if named_so := _NOT_EDITABLE.get(longest.name):
        said += f" The {named_so} alone has about {round(tokens_of(longest)):,}."
    return PromptTooLong(
        f"{said} Shortening what you wrote would not be enough: a model with a larger window is "
        f"needed. {kept}"
    )


def _as_sent(before: Layer, after: Layer, tokens: int, *, reason: str) -> SentLayer:
    originals = {piece.text for piece in before.pieces}
    kept = sum(piece.text in originals for piece in after.pieces)
    return SentLayer(
        name=before.name,
        role=before.role,
        parts=tuple(piece.text for piece in after.pieces),
        separator=before.separator,
        has_heading=before.has_heading,
        tool_calls=before.tool_calls,
        tool_call_id=before.tool_call_id,
        tokens=tokens,
        kept=kept,
        shortened=len(after.pieces) - kept,
        dropped=len(before.pieces) - len(after.pieces),
        reason=reason,
        left_out=_left_out(before, after),
    )


def _left_out(before: Layer, after: Layer) -> tuple[str, ...]:
    """Return the names of the pieces that were dropped, as one text for each block, such as
    "Prompts 1-7: event 1, deed 2"."""
    if len(before.pieces) == len(after.pieces):
        return ()
    kept = set(map(id, after.pieces))
    places: dict[str, list[str]] = {}
    for piece in before.pieces:
        is_kept = id(piece) in kept or (piece.brief and id(piece.shortened) in kept)
        if piece.block and not is_kept:
            places.setdefault(piece.block, []).append(piece.place)
    return tuple(
        f"{block}: {', '.join(named)}" if (named := list(filter(None, found))) else block
        for block, found in places.items()
    )
