"""The records that make up a fold.

A record has everything that a part of memory says about one subject. The method `then` joins it
with the record of the same subject from a later part. All these methods are associative, so the
result does not depend on how memory is divided into parts. `told` has everything that was said
about the subject, in order, so that its history is not lost. `first` and `latest` are the prompts
that named the subject first and last.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import takewhile
from typing import Any, Generic, Protocol, Self, TypeVar


@dataclass(frozen=True, order=True)
class Prompts:
    """The prompts from `first` to `last`, both included. The setup is told before the first prompt,
    so for the setup both are 0.

    For an entry of memory these are the prompts that the entry's block covers. If the entry names
    the prompts that it comes from, `at` has their numbers.
    """

    first: int
    last: int
    at: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """The last prompt that the entry comes from, as far as memory names it."""
        return self.at[-1] if self.at else self.last

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True)
class Mention:
    """The entry of memory that says something.

    `place` is the entry's place in its block, such as "event 2".
    """

    prompts: Prompts
    place: str = ""


@dataclass(frozen=True)
class Block:
    """A memory block in the form that the fold reads. A model wrote the `payload`, so it may be any
    JSON."""

    type: str
    from_prompt: int
    to_prompt: int
    payload: Any


class _Said(Protocol):
    @property
    def mention(self) -> Mention: ...


SaidT = TypeVar("SaidT", bound=_Said)


def in_story_order(told: tuple[SaidT, ...]) -> tuple[SaidT, ...]:
    """Return the entries about a subject in the order of their prompts.

    The blocks of a stretch have different audiences, and each tells all prompts of the stretch that
    its audience witnessed. So the order of the blocks is not the order of the events.
    """
    return tuple(sorted(told, key=lambda one: one.mention.prompts.end))


@dataclass(frozen=True, kw_only=True)
class Retold(Generic[SaidT]):
    """A subject of entries of memory, with all that was `told` about it, in order."""

    told: tuple[SaidT, ...]

    def then(self, later: Self) -> Self:
        return replace(self, told=in_story_order(self.told + later.told))

    @property
    def first(self) -> Prompts:
        return self.told[0].mention.prompts

    @property
    def latest(self) -> Prompts:
        return self.told[-1].mention.prompts


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
    # The place of the first entry in its block, such as "canon 2".
    place: str = ""

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
class ThreadNote:
    """What one entry of memory says about a thread. The outcome is empty unless the entry closes
    the thread. It is bare if it says only that the thread is closed, and not how it ended."""

    mention: Mention
    stakes: str = ""
    trigger: str = ""
    outcome: str = ""
    is_open: bool = True
    is_bare: bool = False


@dataclass(frozen=True)
class Thread(Retold[ThreadNote]):
    """A thread of the story, open or closed, with everything that was said about it.

    `is_named` is True if a block has listed the thread as a thread. It is False if the thread is
    known only because a text closes something of this name, which need not be a thread.
    """

    text: str
    is_named: bool = True
    is_in_lock: bool = False

    def then(self, later: Self) -> Self:
        return replace(
            later,
            text=self.text if self.is_named or not later.is_named else later.text,
            told=in_story_order(self.told + later.told),
            is_named=self.is_named or later.is_named,
            is_in_lock=self.is_in_lock or later.is_in_lock,
        )

    @property
    def is_open(self) -> bool:
        return self.told[-1].is_open

    @property
    def outcome(self) -> str:
        """How the thread ended. An entry that says only that the thread is closed does not change
        the outcome."""
        closings = takewhile(lambda one: not one.is_open, reversed(self.told))
        ends = (one.outcome for one in closings if one.outcome and not one.is_bare)
        return next(ends, self.told[-1].outcome)

    @property
    def stakes(self) -> str:
        return next((one.stakes for one in reversed(self.told) if one.stakes), "")

    @property
    def trigger(self) -> str:
        return next((one.trigger for one in reversed(self.told) if one.trigger), "")


@dataclass(frozen=True)
class Stated:
    """A value that a state key got. `before` is the value that it had until then, in the words of
    the same entry of memory."""

    value: str
    mention: Mention
    before: str = ""
    notes: str = ""


@dataclass(frozen=True)
class Value(Retold[Stated]):
    """A state key with all values that it has had, in order."""

    key: str

    @property
    def now(self) -> Stated:
        """The latest value. An entry of memory without a value does not change it."""
        return next((one for one in reversed(self.told) if one.value), self.told[-1])

    @property
    def value(self) -> str:
        return self.now.value

    @property
    def latest(self) -> Prompts:
        return self.now.mention.prompts


@dataclass(frozen=True)
class Shift:
    """A change of the relationship between people."""

    change: str
    evidence: str
    mention: Mention


@dataclass(frozen=True)
class Tie(Retold[Shift]):
    """The relationship between people, as all its changes in order."""

    people: tuple[str, ...]


@dataclass(frozen=True)
class Find:
    """What one entry of memory says about an item or a clue."""

    finder: str
    why: str
    mention: Mention


@dataclass(frozen=True)
class Thing(Retold[Find]):
    """An item or a clue, with everything that was said about it."""

    name: str

    @property
    def finder(self) -> str:
        return next((one.finder for one in reversed(self.told) if one.finder), "")

    @property
    def why(self) -> str:
        return next((one.why for one in reversed(self.told) if one.why), "")


@dataclass(frozen=True)
class Sighting:
    """The latest known place of a person.

    An empty place means that the person was at the scene, whose place an earlier part of memory
    names. `is_stated` is True if a text named this person's place. `is_guess` is True if the person
    acted in a block that names no place. A guess never replaces a stated place. `placed` is the
    last prompt from which the place comes, or 0 for a guess.
    """

    place: str
    first: Prompts
    latest: Prompts
    is_stated: bool = False
    is_guess: bool = False
    placed: int = 0

    def then(self, later: Self, scene_place: str = "") -> Self:
        """Return this record joined with a later one. `scene_place` is the place of the scene just
        before the later record."""
        if not later.is_guess:
            if later.placed < self.placed:
                return replace(self, latest=max(self.latest, later.latest))
            return replace(later, first=self.first)
        if self.is_stated:
            return replace(self, latest=later.latest)
        return replace(
            later,
            place=later.place or scene_place,
            first=self.first,
            is_guess=self.is_guess,
            placed=self.placed,
        )


@dataclass(frozen=True)
class Visit:
    """What one block says about the scene: its place, or "" if the block names none, and the
    changes around it."""

    place: str
    around: tuple[str, ...]
    mention: Mention


@dataclass(frozen=True)
class Scene(Retold[Visit]):
    """The scene with all places that it has had, in order."""

    @property
    def place(self) -> str:
        return next((one.place for one in reversed(self.told) if one.place), "")

    @property
    def prompts(self) -> Prompts:
        """The prompts that named the place last."""
        placed = (one for one in reversed(self.told) if one.place)
        return next(placed, self.told[-1]).mention.prompts


@dataclass(frozen=True)
class Question:
    """A contradiction or question that agent 8 reports. It is open until the Game Master settles
    it."""

    text: str
    first: Prompts
    latest: Prompts
    is_settled: bool = False
    place: str = ""

    def then(self, later: Self) -> Self:
        settled = self.is_settled or later.is_settled
        return replace(self, latest=later.latest, is_settled=settled)


@dataclass(frozen=True)
class Moment:
    """One line of the timeline: an event, or a deed if `is_deed` is True.

    The doer is a name or the number of a slot, as memory has it. The intent of a deed is known to
    its doer alone.
    """

    text: str
    mention: Mention
    cause: str = ""
    effect: str = ""
    participants: tuple[str, ...] = ()
    is_deed: bool = False
    doer: str = ""
    intent: str = ""
    result: str = ""

    @property
    def prompts(self) -> Prompts:
        return self.mention.prompts


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
    """A part of memory as records. The keys of the mappings come from
    `memory.blocks.same_names.key_of`.

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
