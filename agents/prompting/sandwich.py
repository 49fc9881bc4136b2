"""How an agent's prompt is declared: an ordered list of layers, each with its source and its rules.

Declaring an agent takes a Markdown file, and an entry in declarations.py or in a mode.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from agents.prompting.escaping import guard_heading
from agents.prompting.layers import TIERS, Layer, Piece, Tier, Trim, keep_last
from agents.prompting.sent_layers import BLANK_LINE, Role
from memory.keeping import KeptRecent
from memory.models import MemoryBlock
from memory.stretches import Audience
from sessions.models import Attempt, Session
from sessions.roster import Character
from sessions.world import everybody_at


@dataclass(frozen=True)
class Subject:
    """What one prompt is about. `slot` is the character who is addressed, and `attempt` the one
    that the prompt is for or, of memory, the one with which its stretch ends.

    `before` leaves out that prompt and what came later, for a reply that is written again.
    `audience` are those for whom memory is written, and `waiting` the deltas of the same stretch
    that they know and that are not stored yet.
    `budget_tokens` is the room for the whole prompt, where a source has to know it. `given` are
    the parts that only this call knows, by the names of their layers.
    """

    chapter: Session
    slot: int | None = None
    before: int | None = None
    attempt: Attempt | None = None
    budget_tokens: int | None = None
    audience: Audience | None = None
    waiting: Sequence[MemoryBlock] = ()
    given: Mapping[str, Sequence[Piece]] = field(default_factory=dict)

    @property
    def last_prompt(self) -> int:
        """The last prompt that has happened, as far as this subject is concerned."""
        return self.chapter.prompt_index if self.before is None else self.before - 1

    @cached_property
    def everybody(self) -> tuple[Character, ...]:
        """Those who take part, as far as this subject is concerned."""
        return everybody_at(self.chapter, before=self.before, attempt=self.attempt)

    @property
    def readers(self) -> Audience | None:
        """Those who have to know whatever the prompt tells; None for whoever may know all."""
        return self.audience if self.slot is None else (self.slot,)

    @property
    def whose(self) -> Audience | None:
        """The same, None also where everybody knows the same: what is composed then is for all."""
        return self.readers if self.chapter.differs_by_reader else None


Source = Callable[[Subject, Tier], Sequence[Piece]]


@dataclass(frozen=True)
class LayerDeclaration:
    """A layer of an agent: its name, where its text comes from, and how it gives way.

    `source` has the tier's variant; a layer without pieces is left out, and one that trims
    otherwise in another tier is declared for its `tiers`. What stays whatever happens is what the
    source marks as `must_stay`, and the newest pieces, as many as `floor` says. `is_kept` is for
    what depends on the chapter's state and the tier alone: it is composed once for each state and
    not for each prompt.
    """

    name: str
    source: Source
    role: Role = "user"
    has_heading: bool = True
    trim: Trim = Trim.NEVER
    gives_way: int = 0
    step: int = 1
    share: float | None = None
    separator: str = BLANK_LINE
    floor: int = 0
    tiers: tuple[Tier, ...] = TIERS
    is_kept: bool = False

    def __post_init__(self) -> None:
        if self.has_heading:
            guard_heading(self.name)

    def layer(self, subject: Subject, tier: Tier) -> Layer:
        return Layer(
            self.name,
            keep_last(self.source(subject, tier), self.floor),
            role=self.role,
            has_heading=self.has_heading,
            trim=self.trim,
            gives_way=self.gives_way,
            step=self.step,
            share=self.share,
            separator=self.separator,
        )


def compose(declared: Sequence[LayerDeclaration], subject: Subject, tier: Tier) -> list[Layer]:
    """The layers that have something to say, in the order in which they are declared."""
    layers = (_layer(one, subject, tier) for one in declared if tier in one.tiers)
    return [layer for layer in layers if layer.pieces]


# What a chapter's layer was composed from: the tier, the state of the chapter, what is left out of
# it, the room, and who has appeared. Whatever else changes such a layer moves the chapter's
# `updated_at`.
_LayerState = tuple[Tier, datetime, int | None, int | None, tuple[Character, ...]]
_Kept = tuple[_LayerState, Layer]
# The newest of each chapter, and of each reader where they differ; so many pieces in all.
_kept: KeptRecent[tuple[LayerDeclaration, uuid.UUID, Audience | None], _Kept] = KeptRecent(65_536)


def _layer(declaration: LayerDeclaration, subject: Subject, tier: Tier) -> Layer:
    if not declaration.is_kept:
        return declaration.layer(subject, tier)
    chapter = subject.chapter
    key = (declaration, chapter.pk, subject.whose)
    state = (tier, chapter.updated_at, subject.before, subject.budget_tokens, subject.everybody)
    kept = _kept.get(key)
    if kept is None or kept[0] != state:
        # From the chapter at hand and not from a newer one: all layers of a prompt show one state.
        kept = (state, declaration.layer(subject, tier))
        _kept.set(key, kept, size=1 + len(kept[1].pieces))
    return kept[1]
