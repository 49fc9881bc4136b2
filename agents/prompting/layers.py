"""The layers of a request, and the pieces that make up a layer."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import accumulate
from typing import Literal

from agents.llm.providers.base import ToolCall
from agents.prompting.escaping import without_forgeries
from agents.prompting.sent_layers import BLANK_LINE, Role, with_heading

Tier = Literal["full", "medium", "minimal"]
TIERS: tuple[Tier, ...] = ("full", "medium", "minimal")


class Trim(Enum):
    """The rule for trimming a layer. Pieces of the lowest rank are trimmed first."""

    NEVER = "never"
    OLDEST_FIRST = "oldest first"
    # Pieces are shortened, beginning with the oldest. Pieces are dropped only if all are short and
    # the layer is still too long.
    CONDENSE = "condense"
    # Pieces are shortened, beginning with the oldest. No piece is dropped.
    SHORTEN = "shorten"
    # All pieces are dropped together, or none.
    DROP = "drop"


def weigh(text: str) -> float:
    """Return the weight of a text, which is the sum of the weights of its characters.

    A character of English prose has the weight 1. A character that usually costs more tokens has a
    higher weight.
    """
    if text.isascii():
        return len(text)
    plain = len(text.encode("ascii", "ignore"))
    # A character beyond the basic plane has two units in UTF-16. So the number of units tells
    # without a loop how many such characters there are.
    rare = len(text.encode("utf-16-le", "surrogatepass")) // 2 - len(text)
    return plain + 3 * (len(text) - plain - rare) + 8 * rare


@dataclass(frozen=True)
class Piece:
    """A part of a layer. It is kept, or replaced by its short form `brief`, or dropped as a whole.

    A piece with `must_stay` is never trimmed. The pieces with `must_stay` are the floor of a layer.
    `text` and `brief` are escaped, so that nothing in them imitates a part of the request.
    `has_elements` says that the engine wrote the text and has escaped the words of others in it.
    `has_calls` says that the text explains the forms of tool calls, or that the model itself wrote
    the calls in it. If `heads` is not 0, the piece is the heading of this many pieces after it, and
    is dropped with the last of these pieces. `block` and `place` are the words for the piece in a
    record if it was left out, such as "Prompts 1-7" and "event 2". Only pieces of memory and of the
    transcript have a `block`. `prompt` is the number of the turn that the piece tells, or 0.
    `recorded_at` is the place of the piece's line in the record of its layer, or None.
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
    prompt: int = 0
    recorded_at: int | None = None

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


IN, OUT = "In: ", "Out: "


class Pieces(tuple[Piece, ...]):
    """The pieces of a layer.

    The values that trimming needs are worked out once, because many requests have the same memory,
    and the memory of a long chapter has thousands of pieces. `gone` are the pieces that were
    dropped. `record` has a line for each text that the source could have told; the line says why
    the text is told or not. Such a line begins with `IN` or `OUT`, and may end with the reason in
    brackets.
    """

    gone: tuple[Piece, ...] = ()
    record: tuple[str, ...] = ()

    @classmethod
    def with_record(cls, pieces: Iterable[Piece], record: Iterable[str]) -> "Pieces":
        recorded = cls(pieces)
        recorded.record = tuple(record)
        return recorded

    @classmethod
    def of(cls, pieces: Iterable[Piece]) -> "Pieces":
        return pieces if isinstance(pieces, cls) else cls(pieces)

    @cached_property
    def weight(self) -> float:
        """The weight of all pieces, without the separators between them."""
        return sum(piece.weight for piece in self)

    @cached_property
    def order(self) -> list[int]:
        """The places of the pieces that may be trimmed, in the order of trimming: the pieces of the
        lowest rank first, and of equal rank the oldest first. Headings are not among them."""
        places = (at for at, piece in enumerate(self) if not (piece.heads or piece.must_stay))
        return sorted(places, key=lambda at: self[at].rank)

    @cached_property
    def left_out(self) -> tuple[str, ...]:
        """The names of the pieces that were dropped, as one text for each block, such as "Prompts
        1-7: event 1, deed 2"."""
        places: dict[str, list[str]] = {}
        for piece in self.gone:
            if piece.block:
                places.setdefault(piece.block, []).append(piece.place)
        return tuple(
            f"{block}: {', '.join(named)}" if (named := list(filter(None, found))) else block
            for block, found in places.items()
        )

    @cached_property
    def _goes_at(self) -> list[int]:
        """For each piece, the number of pieces of the order that are dropped by the time this piece
        is dropped. A heading is dropped with the last piece under it. A piece that must stay has a
        number that is never reached."""
        goes_at = [len(self.order) + 1] * len(self)
        for dropped, at in enumerate(self.order, 1):
            goes_at[at] = dropped
        for at, piece in enumerate(self):
            if piece.heads:
                goes_at[at] = max(goes_at[at + 1 : at + 1 + piece.heads])
        return goes_at

    @cached_property
    def _freed(self) -> tuple[list[float], list[int]]:
        """For each number of dropped pieces of the order: the weight and the number of all pieces
        that are gone then, headings included."""
        weights, counts = [0.0] * (len(self.order) + 2), [0] * (len(self.order) + 2)
        for piece, dropped in zip(self, self._goes_at, strict=True):
            weights[dropped] += piece.weight
            counts[dropped] += 1
        return list(accumulate(weights)), list(accumulate(counts))

    @cached_property
    def _shorter(self) -> dict[int, "Pieces"]:
        return {}

    def with_others(self, others: Mapping[int, Piece]) -> "Pieces":
        """Return the pieces, with other pieces in the place of some of them. The other pieces have
        the same ranks."""
        changed = list(self)
        for at, piece in others.items():
            changed[at] = piece
        pieces = Pieces(changed)
        pieces.order, pieces._goes_at = self.order, self._goes_at
        return pieces

    def count_to_free(self, excess: float, separator: int) -> int:
        """Return how many pieces of the order have to be dropped, so that the layer loses a weight
        of `excess`. If the layer cannot lose so much, this is the number of all pieces of the
        order. Each separator has the weight `separator`."""
        weights, counts = self._freed
        numbers = range(len(self.order))
        return bisect_left(numbers, excess, key=lambda n: weights[n] + counts[n] * separator)

    def without_first(self, count: int) -> "Pieces":
        """Return the pieces without the first `count` pieces of the order, and without the headings
        whose pieces were all dropped."""
        shorter = self._shorter.get(count)
        if shorter is None:
            both = list(zip(self, self._goes_at, strict=True))
            shorter = Pieces(piece for piece, dropped in both if dropped > count)
            shorter.gone = tuple(
                piece for piece, dropped in both if dropped <= count and not piece.heads
            )
            self._shorter[count] = shorter
        return shorter


def keep_last(pieces: Sequence[Piece], count: int) -> Pieces:
    """Return the pieces, with `must_stay` set on the last `count` pieces."""
    given = Pieces.of(pieces)
    if not count:
        return given
    newest = len(given) - count
    kept = (
        replace(piece, must_stay=True) if at >= newest and not piece.must_stay else piece
        for at, piece in enumerate(given)
    )
    return Pieces.with_record(kept, given.record)


@dataclass(frozen=True)
class Search:
    """The search for the pieces of a layer, after the other layers were fitted.

    `find` gets the pieces that stand in the request, whole or shortened, and the weight that the
    layer may have. `least_tokens` are kept free for the layer, even if nothing is found, so that
    the other layers of a long chapter are the same for every prompt. If more is free, the layer may
    have up to `most_tokens`, and up to `most_if_all_stays` if no piece of memory or of the
    transcript had to give way. `is_needed` says that something is not in the other layers even
    before they are fitted. Otherwise there is a search only if such a piece had to give way.
    """

    find: Callable[[Sequence[Piece], float], Sequence[Piece]]
    least_tokens: int
    most_tokens: int
    most_if_all_stays: int
    is_needed: bool


@dataclass(frozen=True)
class Layer:
    """A named part of a request.

    Layers with a lower `gives_way` are trimmed first. Pieces are dropped in groups of `step`,
    because prefix caches work better if a layer changes seldom. With a `grain`, the dropped weight
    is rounded up to a multiple of this fraction of the layer's room, for the same reason.
    `most_tokens` limits the layer to a number of tokens, even if there is room for more. `holds` is
    the fraction of the budget that the layer keeps until all layers that give way after it have
    been trimmed too. A layer with a `search` gets its pieces when the others are fitted. A layer
    with a `record` is kept in the record of the request even if it has no pieces.
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
    search: Search | None = None
    record: tuple[str, ...] = ()
    # The tool calls in a message of the assistant, in the form of the server's protocol. The next
    # field is used in a message of a tool: it is the id of the call whose result the message has.
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    @cached_property
    def sized(self) -> Pieces:
        return Pieces.of(self.pieces)

    @cached_property
    def text(self) -> str:
        if not self.pieces:
            return ""
        body = self.separator.join(piece.text for piece in self.pieces)
        return with_heading(self.name, body) if self.has_heading else body

    @cached_property
    def weight(self) -> float:
        calls = (f"{call.call_id}{call.name}{call.arguments}" for call in self.tool_calls)
        weight = weigh("".join(calls))
        if self.pieces:
            heading = with_heading(self.name, "") if self.has_heading else ""
            separators = (len(self.pieces) - 1) * len(self.separator)
            weight += weigh(heading) + self.sized.weight + separators
        return weight


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
