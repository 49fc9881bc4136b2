"""Declares the request of an agent as an ordered list of layers with sources and rules.

To declare an agent, add a Markdown file and an entry in declarations.py or in a mode.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from django.conf import settings

from agents.prompting.escaping import guard_heading
from agents.prompting.layers import TIERS, Layer, Piece, Search, Tier, Trim, keep_last
from agents.prompting.sent_layers import BLANK_LINE, Role
from memory.blocks.blocks import stretch_starts
from memory.blocks.stretches import Audience
from memory.keeping import KeptRecent
from memory.models import MemoryBlock
from sessions.models import Attempt, Session
from sessions.play.played_world import everybody_at
from sessions.roster import Character


@dataclass(frozen=True)
class Subject:
    """The subject of one request.

    `slot` is the character who is addressed. `attempt` is the attempt that the request is made for.
    For memory it is the last attempt of the stretch. `before` is a prompt that is left out together
    with all later prompts, because the request is for another attempt at this prompt. `audience`
    are the characters whose memory is written. `waiting` are deltas of the same stretch that the
    audience may read and that are not stored yet.

    `budget_tokens` is the limit of tokens of the whole request, for sources that need this number.
    `own_pieces` has, by the name of a layer, the pieces that belong to only this request.
    `worked_out` has values that the sources of a mode work out once for several layers of this
    request, such as the world, under names of the mode's own.
    """

    chapter: Session
    slot: int | None = None
    before: int | None = None
    attempt: Attempt | None = None
    budget_tokens: int | None = None
    audience: Audience | None = None
    waiting: Sequence[MemoryBlock] = ()
    own_pieces: Mapping[str, Sequence[Piece]] = field(default_factory=dict)
    worked_out: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def last_prompt(self) -> int:
        """The number of the last prompt that the request may include."""
        return self.chapter.prompt_index if self.before is None else self.before - 1

    @cached_property
    def everybody(self) -> tuple[Character, ...]:
        """The members of the cast up to this point of the story."""
        return everybody_at(self.chapter, before=self.before, attempt=self.attempt)

    @cached_property
    def stretch_starts(self) -> list[int]:
        """The first prompt of each stretch that memory covers, and then the first prompt that
        memory does not cover.

        A delta does not count if another attempt is chosen at its last turn.
        """
        return stretch_starts(self.chapter, self.before)

    @property
    def readers(self) -> Audience | None:
        """The characters who must know all that is told in the request. None if everything may be
        told."""
        return self.audience if self.slot is None else (self.slot,)

    @property
    def whose(self) -> Audience | None:
        """The part of a cache key for the readers. None if the chapter's texts are the same for all
        readers."""
        return self.readers if self.chapter.differs_by_reader else None


Source = Callable[[Subject, Tier], Sequence[Piece]]
Searching = Callable[[Subject, Tier], Search]


def no_pieces(subject: Subject, tier: Tier) -> Sequence[Piece]:
    return ()


@dataclass(frozen=True)
class LayerDeclaration:
    """A layer of an agent, with the source of its text and the rule for trimming it.

    `source` returns the pieces for a tier, and a layer without pieces is left out. With
    `searching`, the pieces are found when the other layers are fitted. `tiers` limits the
    declaration to some tiers, so that another declaration can apply to the other tiers. For the
    tiers that `most_tokens` names, it limits the layer to a number of tokens, even if there is room
    for more.

    A piece is never trimmed if the source sets its `must_stay`, or if it is one of the newest
    `floor` pieces. `is_kept` says that the layer depends only on the chapter's state and the tier,
    so that it is made once for each state.
    """

    name: str
    source: Source = no_pieces
    role: Role = "user"
    has_heading: bool = True
    trim: Trim = Trim.NEVER
    gives_way: int = 0
    step: int = 1
    grain: float = 0
    holds: float = 0
    separator: str = BLANK_LINE
    floor: int = 0
    tiers: tuple[Tier, ...] = TIERS
    # This field is not part of the hash, because a mapping has no hash. The declaration needs a
    # hash as a key of the cache.
    most_tokens: Mapping[Tier, int] = field(default_factory=dict, hash=False)
    is_kept: bool = False
    # True if the layer tells memory. STORYENGINE_MEMORY_TOKENS limits the tokens of such layers.
    is_memory: bool = False
    searching: Searching | None = None

    def __post_init__(self) -> None:
        if self.has_heading:
            guard_heading(self.name)

    def layer(self, subject: Subject, tier: Tier) -> Layer:
        most_tokens = self.most_tokens.get(tier)
        pieces = keep_last(self.source(subject, tier), self.floor)
        if self.is_memory:
            most_tokens = min(settings.MEMORY_TOKENS, most_tokens or settings.MEMORY_TOKENS)
        return Layer(
            self.name,
            pieces,
            role=self.role,
            has_heading=self.has_heading,
            trim=self.trim,
            gives_way=self.gives_way,
            step=self.step,
            grain=self.grain,
            holds=self.holds,
            most_tokens=most_tokens,
            separator=self.separator,
            search=self.searching and self.searching(subject, tier),
            record=pieces.record,
        )


def compose(declared: Sequence[LayerDeclaration], subject: Subject, tier: Tier) -> list[Layer]:
    """Return the layers in the order of their declarations. Left out are layers without pieces,
    unless a search may find pieces for them or their record says why they have none."""
    layers = (_layer(one, subject, tier) for one in declared if tier in one.tiers)
    return [layer for layer in layers if layer.pieces or layer.search or layer.record]


# The values that a cached layer depends on: the tier, the state of the chapter, the prompt to leave
# out, the budget and the cast. A change of anything else also changes the chapter's `updated_at`.
_LayerState = tuple[Tier, datetime, int | None, int | None, tuple[Character, ...]]
_Kept = tuple[_LayerState, Layer]
# The cache of the newest layers of each chapter and reader. The limit of the cache counts pieces.
_kept: KeptRecent[tuple[LayerDeclaration, uuid.UUID, Audience | None], _Kept] = KeptRecent(65_536)


def _layer(declaration: LayerDeclaration, subject: Subject, tier: Tier) -> Layer:
    if not declaration.is_kept:
        return declaration.layer(subject, tier)
    chapter = subject.chapter
    # Memory tells the intent of a deed to its doer alone, so it differs by reader in any chapter.
    whose = subject.readers if declaration.is_memory else subject.whose
    key = (declaration, chapter.pk, whose)
    state = (tier, chapter.updated_at, subject.before, subject.budget_tokens, subject.everybody)
    kept = _kept.get(key)
    if kept is None or kept[0] != state:
        # The layer is made from the given object of the chapter, even if the stored chapter is
        # newer, so that all layers of a request show the same state.
        kept = (state, declaration.layer(subject, tier))
        _kept.set(key, kept, size=1 + len(kept[1].pieces))
    return kept[1]
