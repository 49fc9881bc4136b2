"""Fits the layers of a request into the budget of a model.

The order of the layers is the caller's and is never changed. Stable text comes first, because
servers cache the beginnings of requests. Layers are trimmed in the order of `gives_way`, each by
its own rule.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from agents.exceptions import PromptTooLong
from agents.llm.providers.base import Message
from agents.prompting.budget import TOKENS_PER_MESSAGE
from agents.prompting.layers import IN, OUT, Layer, Piece, Pieces, Trim
from agents.prompting.sent_layers import SentLayer, join_layers

# The layers whose texts the GM can shorten, with the words for these texts in messages.
EDITABLE = {
    "WORLD_TEXT": "the world text on Tab 1",
    "CHAPTER_TEXT": "the chapter text on Tab 1",
    "AGENT_IDENTITY": "the identity on Tab 1",
    "USER_PROMPT": "your prompt",
    "NARRATIVE_AGENT_DEFINITION": "the narrative agent's instructions on Tab 3",
}
# The layer with a text that is locked. A message names it last, because the GM can shorten this
# text only in a copy of the chapter.
_LOCKED = "AGENT_IDENTITY"
# The layers whose texts the GM cannot shorten, with the words for these texts in messages.
NOT_EDITABLE = {
    **dict.fromkeys(
        ("RECENT_CONTEXT", "RECENT_CONTEXT_CHUNK", "FULL_CHAPTER_CONTEXT"), "transcript"
    ),
    **dict.fromkeys(("STRUCTURED_MEMORY", "STRUCTURED_MEMORY_SO_FAR"), "memory"),
}


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
    """Fit the layers into the budget, and then search for the pieces of a layer that needs it.
    Raises PromptTooLong if pieces that must stay do not fit."""
    others = [layer for layer in layers if layer.pieces or layer.record]
    searched = next((layer for layer in layers if layer.search), None)
    if searched is None or searched.search is None:
        return _fit(others, budget_tokens, weight_per_token).prompt()
    search, fitted = searched.search, None
    if not search.is_needed:
        fitted = _fit(others, budget_tokens, weight_per_token)
        if not fitted.lacks_pieces:
            return fitted.prompt()
    kept_free = min(search.least_tokens, budget_tokens)
    try:
        fitted = _fit(others, budget_tokens, weight_per_token, kept_free=kept_free)
    except PromptTooLong:
        fitted = fitted or _fit(others, budget_tokens, weight_per_token)
    room = (budget_tokens - TOKENS_PER_MESSAGE) * weight_per_token - fitted.weight
    most = search.most_tokens if fitted.lacks_pieces else search.most_if_all_stays
    found = search.find(fitted.standing, min(room, most * weight_per_token))
    before = layers[: layers.index(searched)]
    place = sum(bool(layer.pieces or layer.record) for layer in before)
    return fitted.with_layer(replace(searched, pieces=tuple(found)), place).prompt()


@dataclass(frozen=True)
class _Stages:
    """A layer before it was trimmed, within its own limit, and within the budget."""

    original: Layer
    limited: Layer
    fitted: Layer

    @property
    def reason(self) -> str:
        """Why the layer was trimmed, or "" if it was not."""
        if self.fitted is self.original:
            return ""
        return "its limit is full" if self.fitted is self.limited else "the window is full"


@dataclass(frozen=True)
class _Fitted:
    """Layers that were fitted into a budget."""

    stages: Sequence[_Stages]
    weight_per_token: float

    @property
    def weight(self) -> float:
        """The weight of the layers, with the tokens that a server adds to each of them."""
        beside = TOKENS_PER_MESSAGE * len(self.stages) * self.weight_per_token
        return sum(one.fitted.weight for one in self.stages) + beside

    @property
    def lacks_pieces(self) -> bool:
        """Whether a piece of memory or of the transcript was shortened or dropped."""
        return any(
            one.reason and any(piece.block for piece in one.original.pieces) for one in self.stages
        )

    @property
    def standing(self) -> list[Piece]:
        """The pieces that are in the request, as they were before any of them was shortened."""
        standing: list[Piece] = []
        for one in self.stages:
            kept = set(map(id, one.fitted.pieces))
            standing += (
                piece
                for piece in one.original.pieces
                if id(piece) in kept or (piece.brief and id(piece.shortened) in kept)
            )
        return standing

    def with_layer(self, layer: Layer, place: int) -> "_Fitted":
        """Return the layers with `layer` added at this place, unless it has no pieces."""
        if not layer.pieces:
            return self
        added = _Stages(layer, layer, layer)
        return replace(self, stages=[*self.stages[:place], added, *self.stages[place:]])

    def prompt(self) -> AssembledPrompt:
        return AssembledPrompt(
            tuple(_as_sent(one, self.weight_per_token) for one in self.stages),
            sum(one.fitted.weight for one in self.stages),
        )


def _fit(
    originals: Sequence[Layer],
    budget_tokens: int,
    weight_per_token: float,
    *,
    kept_free: int = 0,
) -> _Fitted:
    """Fit the layers into the budget, without using the tokens that are kept free. Raises
    PromptTooLong if pieces that must stay do not fit."""
    grains = [
        layer.grain * min(_limit(layer), budget_tokens) * weight_per_token for layer in originals
    ]
    limited = [
        _trim(layer, _limit(layer) * weight_per_token, grain)
        for layer, grain in zip(originals, grains, strict=True)
    ]
    fitted = list(limited)
    beside = TOKENS_PER_MESSAGE * len(fitted) + kept_free
    available = (budget_tokens - beside) * weight_per_token
    total = sum(layer.weight for layer in fitted)
    for is_last_resort in (False, True):
        for at in sorted(range(len(fitted)), key=lambda i: fitted[i].gives_way):
            if total <= available:
                break
            others = total - fitted[at].weight
            held = 0 if is_last_resort else limited[at].holds * budget_tokens * weight_per_token
            room = max(available - others, held)
            if limited[at].weight > room:
                # The whole layer is trimmed anew, because the values that its trimming needs are
                # known already.
                fitted[at] = _trim(originals[at], room, grains[at])
            total = others + fitted[at].weight
    if total > available:
        sizes = [(layer.name, layer.weight / weight_per_token) for layer in fitted]
        raise too_long(sizes, (total - available) / weight_per_token)
    return _Fitted(list(map(_Stages, originals, limited, fitted)), weight_per_token)


def _limit(layer: Layer) -> float:
    """Return the limit of tokens of the layer. It holds even if there is room for more."""
    return math.inf if layer.most_tokens is None else layer.most_tokens


def _trim(layer: Layer, room: float, grain: float) -> Layer:
    """Trim the layer by its rule until its weight is at most `room`, or until only pieces are left
    that may not be trimmed. With a `grain`, the weight that is dropped is at least a multiple of
    it."""
    excess = layer.weight - room
    if excess <= 0 or layer.trim is Trim.NEVER:
        return layer
    pieces = layer.sized
    if layer.trim in (Trim.CONDENSE, Trim.SHORTEN):
        pieces = _shorten(pieces, excess)
        excess -= layer.sized.weight - pieces.weight
    if layer.trim is not Trim.SHORTEN and excess > 0:
        if grain:
            excess = math.ceil(excess / grain) * grain
        count = pieces.count_to_free(excess, len(layer.separator))
        count = (
            len(pieces.order) if layer.trim is Trim.DROP else _in_steps(pieces, count, layer.step)
        )
        pieces = pieces.without_first(count)
    return layer if pieces == layer.pieces else replace(layer, pieces=pieces)


def _shorten(pieces: Pieces, excess: float) -> Pieces:
    """Shorten pieces in their order, until they have lost a weight of `excess`, or until all are
    short."""
    shorter = list(pieces)
    for at in pieces.order:
        if excess <= 0:
            break
        whole = pieces[at]
        if whole.brief:
            excess -= whole.weight - whole.shortened.weight
            shorter[at] = whole.shortened
    return Pieces(shorter)


def _in_steps(pieces: Pieces, count: int, step: int) -> int:
    """Return how many pieces go, if at least `count` go in groups of at most `step` pieces of the
    same rank."""
    gone = 0
    while step > 1 and gone < count:
        group = [pieces[at].rank for at in pieces.order[gone : gone + step]]
        gone += group.count(group[0])
    return max(gone, count)


def _as_sent(stages: _Stages, weight_per_token: float) -> SentLayer:
    before, after = stages.original, stages.fitted
    originals = set(map(id, before.pieces))
    kept = sum(id(piece) in originals for piece in after.pieces)
    return SentLayer(
        name=before.name,
        role=before.role,
        parts=tuple(piece.text for piece in after.pieces),
        separator=before.separator,
        has_heading=before.has_heading,
        tool_calls=before.tool_calls,
        tool_call_id=before.tool_call_id,
        tokens=round(after.weight / weight_per_token),
        kept=kept,
        shortened=len(after.pieces) - kept,
        dropped=len(before.pieces) - len(after.pieces),
        reason=stages.reason,
        left_out=after.sized.left_out,
        record=_recorded(stages),
    )


def _recorded(stages: _Stages) -> tuple[str, ...]:
    """Return the record of the layer, in which the lines of dropped pieces say that they are out,
    and why."""
    if not stages.original.record:
        # Memory has thousands of pieces, and no record.
        return ()
    record, kept = list(stages.original.record), set(map(id, stages.fitted.pieces))
    for piece in stages.original.pieces:
        at = piece.recorded_at
        if at is not None and id(piece) not in kept:
            told = record[at].removeprefix(IN)
            reason = stages.reason
            has_reason = told.endswith(")")
            record[at] = OUT + (
                f"{told[:-1]}, but {reason})" if has_reason else f"{told} ({reason})"
            )
    return tuple(record)


def too_long(sizes: Sequence[tuple[str, float]], excess: float) -> PromptTooLong:
    """Return the error for a request that has `excess` tokens too many. `sizes` are the names and
    the tokens of its layers.

    Its message names the longest layer that the GM can shorten, or all such layers if one layer is
    not enough.
    """
    said = f"This is about {round(excess):,} tokens too long for the model's context window."
    kept = "Nothing was sent and your words are kept."
    parts = sorted(
        ((name, tokens) for name, tokens in sizes if name in EDITABLE),
        key=lambda part: (part[0] == _LOCKED, -part[1]),
    )
    enough = [part for part in parts if part[1] > excess][:1]
    if not enough and sum(tokens for _, tokens in parts) > excess:
        enough = parts
    if enough:
        named = " and ".join(
            f"{EDITABLE[name]} (about {round(tokens):,} tokens)" for name, tokens in enough
        )
        way_out = f"Shorten {named} by so much, or use a model with a larger window."
        return PromptTooLong(f"{said} {way_out} {kept}")
    longest, tokens = max(sizes, key=lambda one: one[1])
    if named_so := NOT_EDITABLE.get(longest):
        said += f" The {named_so} alone has about {round(tokens):,}."
    return PromptTooLong(
        f"{said} Shortening what you wrote would not be enough: a model with a larger window is "
        f"needed. {kept}"
    )
