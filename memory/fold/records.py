"""What a fold is made of.

A record tells what a stretch of memory says of one thing; `then` joins it with what a later
stretch says of the same thing. Every `then` is associative: how memory is cut does not matter.
`first` and `latest` are the prompts that first named the thing and those that said it last.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Protocol, Self


@dataclass(frozen=True, order=True)
class Prompts:
    """Prompts `first` to `last`, both included; 0 to 0 is the setup."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True)
class Block:
    """A memory block as the fold reads it; `payload` is whatever a model returned."""

    type: str
    from_prompt: int
    to_prompt: int
    payload: Any


class Record(Protocol):
    def then(self, later: Self) -> Self: ...


class Ruling(Enum):
    """What the game master last said of a fact."""

    NONE = "none"
    TRUE = "true"
    UNTRUE = "untrue"


@dataclass(frozen=True)
class Truth:
    """A canon fact, or what was said in its place."""

    text: str
    first: Prompts
    latest: Prompts
    ruling: Ruling = Ruling.NONE
    is_worded_by_gm: bool = False
    is_in_lock: bool = False

    def then(self, later: Self) -> Self:
        """A ruling holds until the next one, whatever models restate in between."""
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
    """`is_named` when it was ever listed as a thread; a closing may name anything."""

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
    """The last value of a state key."""

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
    """What last changed between people."""

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
    """Where somebody was last.

    An empty place is that of the scene at the time, which an earlier stretch knows. `is_stated`
    when a text said where this person is; `is_guess` when the person only acted while no text
    of that block said where, which does not move somebody whose place was stated.
    """

    place: str
    first: Prompts
    latest: Prompts
    is_stated: bool = False
    is_guess: bool = False

    def then(self, later: Self, scene_place: str = "") -> Self:
        """`scene_place` is where the scene stood at the end of the earlier stretch."""
        if not later.is_guess:
            return replace(later, first=self.first)
        if self.is_stated:
            return replace(self, latest=later.latest)
        return replace(
            later, place=later.place or scene_place, first=self.first, is_guess=self.is_guess
        )


@dataclass(frozen=True)
class Scene:
    """Where the scene is, and what changed there since."""

    place: str
    around: tuple[str, ...]
    prompts: Prompts

    def then(self, later: Self) -> Self:
        return later if later.place else replace(self, around=(*self.around, *later.around))


@dataclass(frozen=True)
class Question:
    """A contradiction or question that agent 8 reports, until the game master has answered."""

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
    """What the game master ruled; `answers` is the question that it was an answer to."""

    replaces: str
    canon: str
    reason: str
    answers: str
    prompts: Prompts


@dataclass(frozen=True)
class Setting:
    """What the lock says of world and chapter and play does not change."""

    label: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Fold:
    """A stretch of memory, folded. Mappings are keyed by `fold_names.key_of`.

    What counts at present is for `fold_present` to say: here stand also facts that a correction
    withdrew and closings of threads that another stretch opened.
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
