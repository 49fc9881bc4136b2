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
    the calls in it.
    """

    text: str
    brief: str = ""
    must_stay: bool = False
    rank: int = 0
    has_elements: bool = False
    has_calls: bool = False

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
    because prefix caches work better if a layer changes seldom. `share` limits the layer to a
    fraction of the budget, and `most_tokens` limits it to a number of tokens, even if there is room
    for more.
    """

    name: str
    pieces: tuple[Piece, ...]
    role: Role = "user"
    has_heading: bool = True
    trim: Trim = Trim.NEVER
    gives_way: int = 0
    step: int = 1
    share: float | None = None
    most_tokens: int | None = None
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
    limited = [_trim(layer, _limit(layer, budget_tokens) * weight_per_token) for layer in originals]
    fitted = list(limited)
    available = (budget_tokens - TOKENS_PER_MESSAGE * len(fitted)) * weight_per_token
    total = sum(layer.weight for layer in fitted)
    for at in sorted(range(len(fitted)), key=lambda i: fitted[i].gives_way):
        others = total - fitted[at].weight
        fitted[at] = _trim(fitted[at], available - others)
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


def _limit(layer: Layer, budget_tokens: int) -> float:
    """Return the most tokens that the layer may have, even if there is room for more."""
    share = math.inf if layer.share is None else layer.share * budget_tokens
    return share if layer.most_tokens is None else min(share, layer.most_tokens)


def _trim(layer: Layer, room: float) -> Layer:
    """Trim the layer by its rule until its weight is at most `room`, or until only pieces that must
    stay are left."""
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
        while order and weight > room:
            going = order if layer.trim is Trim.DROP else _next_to_go(pieces, order, layer.step)
            for at in going:
                weight -= pieces.pop(at).weight + len(layer.separator)
            order = order[len(going) :]
    kept = tuple(pieces.values())
    return layer if kept == layer.pieces else replace(layer, pieces=kept)


def _next_to_go(pieces: Mapping[int, Piece], order: Sequence[int], step: int) -> Sequence[int]:
    """Return the next pieces to drop: at most `step` pieces, all of the same rank."""
    rank = pieces[order[0]].rank
    return [at for at in order[:step] if pieces[at].rank == rank]


def _order_of_giving_way(layer: Layer) -> list[int]:
    newest_first = layer.trim is Trim.NEWEST_FIRST
    return sorted(
        range(len(layer.pieces)),
        key=lambda at: (layer.pieces[at].rank, -at if newest_first else at),
    )


def _reason(before: Layer, within: Layer, after: Layer) -> str:
    if after is before:
        return ""
    if after is not within:
        return "the window is full"
    return "its share of the window is full" if before.most_tokens is None else "its limit is full"


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
    )
