"""The records that make up a fold.

A record has everything that a part of memory says about one subject. The method `then` joins it
with the record of the same subject from a later part. All these methods are associative, so the
result does not depend on how memory is divided into parts. `first` and `latest` are the prompts
that named the subject first and last.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Protocol, Self


@dataclass(frozen=True, order=True)
class Prompts:
    """The prompts from `first` to `last`, both included. The setup is told before the first prompt,
    so for the setup both are 0."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True)
class Block:
    """A memory block in the form that the fold reads. A model wrote the `payload`, so it may be any
    JSON."""

    type: str
    from_prompt: int
    to_prompt: int
    payload: Any


class Record(Protocol):
    def then(self, later: Self) -> Self: ...


class Ruling(Enum):
    """The latest ruling on a fact."""

    NONE = "none"
    TRUE = "true"
    UNTRUE = "untrue"


@dataclass(frozen=True)
class Truth:
    """A fact that a model or a ruling stated as canon, or that a ruling withdrew."""

    text: str
    first: Prompts
    latest: Prompts
    ruling: Ruling = Ruling.NONE
    is_worded_by_gm: bool = False
    is_in_lock: bool = False

    def then(self, later: Self) -> Self:
        """Return this record joined with a later one.

        A ruling holds until the next ruling on the fact, even if models state something else
        meanwhile.
        """
        return replace(
            self,
            text=later.text if later.is_worded_by_gm else self.text,
            latest=later.latest,
            ruling=self.ruling if later.ruling is Ruling.NONE else later.ruling,
            is_worded_by_gm=self.is_worded_by_gm or later.is_worded_by_gm,
            is_in_lock=self.is_in_lock or later.is_in_lock,
        )


@dataclass(frozen=True)
class Thread:
    """A thread of the story, open or closed.

    `is_named` is True if a block has listed the thread as a thread. It is False if the thread is
    known only because a text closes something of this name, which need not be a thread.
    """

    text: str
    first: Prompts
    latest: Prompts
    stakes: str = ""
    trigger: str = ""
    outcome: str = ""
    is_open: bool = True
    is_named: bool = True
    is_in_lock: bool = False

    def then(self, later: Self) -> Self:
        return replace(
            later,
            text=self.text if self.is_named or not later.is_named else later.text,
            first=self.first,
            stakes=later.stakes or self.stakes,
            trigger=later.trigger or self.trigger,
            is_named=self.is_named or later.is_named,
            is_in_lock=self.is_in_lock or later.is_in_lock,
        )


@dataclass(frozen=True)
class Value:
    """The latest value of a state key."""

    key: str
    value: str
    notes: str
    first: Prompts
    latest: Prompts

    def then(self, later: Self) -> Self:
        if self.value and not later.value:
            return self
        return replace(later, key=self.key, first=self.first)


@dataclass(frozen=True)
class Tie:
    """The latest change of the relationship between people."""

    people: tuple[str, ...]
    change: str
    evidence: str
    first: Prompts
    latest: Prompts

    def then(self, later: Self) -> Self:
        return replace(later, people=self.people, first=self.first)


@dataclass(frozen=True)
class Thing:
    """An item or a clue."""

    name: str
    finder: str
    why: str
    first: Prompts
    latest: Prompts

    def then(self, later: Self) -> Self:
        return replace(
            later,
            name=self.name,
            finder=later.finder or self.finder,
            why=later.why or self.why,
            first=self.first,
        )


@dataclass(frozen=True)
class Sighting:
    """The latest known place of a person.

    An empty place means that the person was at the scene, whose place an earlier part of memory
    names. `is_stated` is True if a text named this person's place. `is_guess` is True if the person
    acted in a block that names no place. A guess never replaces a stated place.
    """

    place: str
    first: Prompts
    latest: Prompts
    is_stated: bool = False
    is_guess: bool = False

    def then(self, later: Self, scene_place: str = "") -> Self:
        """Return this record joined with a later one. `scene_place` is the place of the scene just
        before the later record."""
        if not later.is_guess:
            return replace(later, first=self.first)
        if self.is_stated:
            return replace(self, latest=later.latest)
        return replace(
            later, place=later.place or scene_place, first=self.first, is_guess=self.is_guess
        )


@dataclass(frozen=True)
class Scene:
    """The place of the scene, and the changes around this place since the scene came there."""

    place: str
    around: tuple[str, ...]
    prompts: Prompts

    def then(self, later: Self) -> Self:
        return later if later.place else replace(self, around=(*self.around, *later.around))


@dataclass(frozen=True)
class Question:
    """A contradiction or question that agent 8 reports. It is open until the Game Master settles
    it."""

    text: str
    first: Prompts
    latest: Prompts
    is_settled: bool = False

    def then(self, later: Self) -> Self:
        settled = self.is_settled or later.is_settled
        return replace(self, latest=later.latest, is_settled=settled)


@dataclass(frozen=True)
class Moment:
    """One line of the timeline."""

    text: str
    aside: str
    prompts: Prompts


@dataclass(frozen=True)
class Correction:
    """A ruling of the Game Master. `answers` is the question that the ruling answers, if any."""

    replaces: str
    canon: str
    reason: str
    answers: str
    prompts: Prompts


@dataclass(frozen=True)
class Setting:
    """A part of the lock about the world or the chapter that play does not change."""

    label: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Fold:
    """A part of memory as records. The keys of the mappings come from `memory.fold.names.key_of`.

    A fold keeps facts that were withdrawn and threads that were closed, because other parts of
    memory may name them too. `memory.fold.present` decides which records hold at present.
    """

    settings: tuple[Setting, ...] = ()
    cast: Mapping[str, str] = field(default_factory=dict)
    scene: Scene | None = None
    truths: Mapping[str, Truth] = field(default_factory=dict)
    threads: Mapping[str, Thread] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    ties: Mapping[str, Tie] = field(default_factory=dict)
    things: Mapping[str, Thing] = field(default_factory=dict)
    people: Mapping[str, str] = field(default_factory=dict)
    sightings: Mapping[str, Sighting] = field(default_factory=dict)
    questions: Mapping[str, Question] = field(default_factory=dict)
    moments: tuple[Moment, ...] = ()
    corrections: tuple[Correction, ...] = ()
