"""How an agent's prompt is declared: an ordered list of layers, each with its source and its rules.

Declaring an agent takes a Markdown file in agents/prompts and an entry in agents/declarations.py.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from agents.layers import Layer, Piece, Role, Tier, Trim
from sessions.access import get_chapter
from sessions.models import Session


@dataclass(frozen=True)
class Subject:
    """What one prompt is about. `slot` is the character who is addressed.

    `before` leaves out that prompt and what came later, for a reply that is written again.
    `given` are the parts that only this call knows, by the names of their layers.
    """

    chapter: Session
    slot: int | None = None
    before: int | None = None
    given: Mapping[str, Sequence[Piece]] = field(default_factory=dict)

    @property
    def last_prompt(self) -> int:
        """The last prompt that has happened, as far as this subject is concerned."""
        return self.chapter.prompt_index if self.before is None else self.before - 1


Source = Callable[[Subject, Tier], Sequence[Piece]]


@dataclass(frozen=True)
class LayerDeclaration:
    """A layer of an agent: its name, where its text comes from, and how it gives way.

    `source` has the tier's variant; a layer without pieces is left out. The floor is what the
    source marks as `must_stay`. `is_kept` is for what depends on the chapter's state and the tier
    alone: it is composed once for each state and not for each prompt.
    """

    name: str
    source: Source
    role: Role = "user"
    has_heading: bool = True
    trim: Trim = Trim.NEVER
    gives_way: int = 0
    step: int = 1
    share: float | None = None
    separator: str = "\n\n"
    is_kept: bool = False

    def layer(self, subject: Subject, tier: Tier) -> Layer:
        return Layer(
            self.name,
            tuple(self.source(subject, tier)),
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
    layers = (_layer(declaration, subject, tier) for declaration in declared)
    return [layer for layer in layers if layer.pieces]


def _layer(declaration: LayerDeclaration, subject: Subject, tier: Tier) -> Layer:
    if not declaration.is_kept:
        return declaration.layer(subject, tier)
    chapter = subject.chapter
    return _kept_layer(declaration, tier, chapter.pk, chapter.updated_at, subject.before)


@lru_cache(maxsize=64)
def _kept_layer(
    declaration: LayerDeclaration,
    tier: Tier,
    session_id: uuid.UUID,
    _updated_at: datetime,
    before: int | None,
) -> Layer:
    """Once for each state of the chapter: whatever changes such a layer moves its `updated_at`."""
    return declaration.layer(Subject(get_chapter(session_id), before=before), tier)
