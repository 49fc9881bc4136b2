"""Makes chapters for the fold test, and knows their truth.

A chapter has subjects whose values change: where somebody is, who has a thing, a promise, an
injury, and the place of the scene. Each turn states some changes before its witnesses. The truth
here comes only from these turns and from the rulings. It uses no part of the program, so that it
can contradict the program.
"""

import random
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

CAST = ("Mara", "Tobin", "Ines", "Ludo", "Petra", "Oskar", "Hanna")
_OTHERS = (
    "Sister Agnes", "Old Bertram", "Captain Vey", "Widow Lorne", "Doctor Quill", "Judge Almery",
    "Cousin Effie", "Brother Anselm", "Miss Harrow", "Uncle Corvin", "Lady Sedge", "Master Pym",
    "Farmer Doyle",
)  # fmt: skip
_PLACES = tuple(
    f"the {kind} {room}"
    for kind in ("north", "south", "upper", "lower", "old", "new")
    for room in ("loft", "cellar", "gallery", "stable", "pantry")
)
_SCENES = tuple(
    f"the {name} {ground}"
    for name in ("mill", "salt", "ferry", "bell", "orchard")
    for ground in ("yard", "bridge", "gate")
)
_THINGS = tuple(
    f"{what} {thing}"
    for what in ("brass", "bone", "glass", "iron", "oak")
    for thing in ("key", "whistle", "ring", "lantern", "flute", "compass", "casket")
)
_PARTS = ("left hand", "right knee", "forehead")
_INJURIES = ("bruised", "bleeding", "bandaged", "infected", "healed")
# The share of the turns that only some of the cast witness, and the share that state nothing.
_APART, _QUIET = 0.4, 0.15


class Kind(StrEnum):
    PLACE = "place"
    HOLDER = "holder"
    # A promise is kept as a state of its own, or as a thread of the story.
    PROMISE = "promise"
    THREAD = "thread"
    INJURY = "injury"
    SCENE = "scene"


@dataclass(frozen=True)
class Subject:
    """A subject. `key` is the name under which memory has it, and `named` the name in prompts."""

    kind: Kind
    key: str
    named: str
    values: tuple[str, ...]

    def sentence(self, value: str) -> str:
        return f"{self.named} {value}."


@dataclass(frozen=True)
class Change:
    subject: Subject
    value: str

    @property
    def sentence(self) -> str:
        return self.subject.sentence(self.value)


@dataclass(frozen=True)
class Turn:
    """One attempt at a turn. The `mark` stands in its words, and belongs to no other attempt."""

    number: int
    mark: str
    actor: int
    witnesses: tuple[int, ...]
    changes: tuple[Change, ...]

    @property
    def words(self) -> str:
        said = " ".join(change.sentence for change in self.changes)
        return f"At {self.mark} the wind turns. {said}".strip()

    @property
    def reply_mark(self) -> str:
        return f"R{self.mark[1:]}"

    @property
    def intent_mark(self) -> str:
        """The mark of what only the actor knows."""
        return f"I{self.mark[1:]}"

    @property
    def reply(self) -> str:
        return f'I look up. "So be it, by {self.reply_mark}," I say, and I go on with my work.'


@dataclass(frozen=True)
class Ruling:
    """A ruling after turn `after`: `subject` has the value `new` instead of `old`, for all
    `readers`. It holds to the end of the chapter."""

    after: int
    subject: Subject
    old: str
    new: str
    readers: tuple[int, ...]


@dataclass(frozen=True)
class Known:
    """The values of a subject that a reader knows, with the turns that stated them, in order. A
    value that was handed on from the chapter before has the turn 0, and `earlier` are the values
    of the chapters before."""

    told: tuple[tuple[int, str], ...]
    ruling: Ruling | None = None
    earlier: frozenset[str] = frozenset()

    @property
    def now(self) -> str:
        return self.ruling.new if self.ruling else self.told[-1][1]

    @property
    def ever(self) -> set[str]:
        ruled = {self.ruling.new} if self.ruling else set()
        return ruled | {value for _, value in self.told} | self.earlier


@dataclass
class Story:
    """The turns that the story goes by, and the rulings. `book` has all attempts by their marks,
    also those that are not chosen."""

    readers: tuple[int, ...]
    subjects: tuple[Subject, ...]
    turns: list[Turn] = field(default_factory=list)
    rulings: list[Ruling] = field(default_factory=list)
    book: dict[str, Turn] = field(default_factory=dict)

    def add(self, turn: Turn) -> None:
        """Add the turn, or choose it if it is another attempt at the latest turn."""
        self.book[turn.mark] = turn
        self.turns[turn.number - 1 :] = [turn]

    def is_chosen(self, turn: Turn) -> bool:
        return turn.number <= len(self.turns) and self.turns[turn.number - 1] == turn

    @property
    def ruled(self) -> set[Subject]:
        """The subjects of all rulings."""
        return {one.subject for one in self.rulings}

    def name_of(self, slot: int) -> str:
        return CAST[slot - 1]

    def may_know(self, turn: Turn, reader: int, until: int) -> bool:
        """Return whether the reader witnessed this attempt, and the story goes by it up to the turn
        `until`."""
        return self.is_chosen(turn) and turn.number <= until and reader in turn.witnesses

    def ever(self, subject: Subject, reader: int, knows: Known | None) -> set[str]:
        """Return the values that the reader may have been told of the subject. `knows` is what the
        reader knows of it now."""
        return knows.ever if knows else set()

    def has_done(self, turn: Turn, reader: int) -> bool:
        return turn.actor == reader

    def until(self, number: int) -> Self:
        """Return the story as a fork after this turn has it. It has its own lists."""
        rulings = [one for one in self.rulings if one.after <= number]
        return replace(self, turns=self.turns[:number], rulings=rulings, book=dict(self.book))

    def known(
        self,
        readers: Iterable[int] = (),
        *,
        until: int | None = None,
        with_rulings: bool = True,
    ) -> dict[Subject, Known]:
        """Return what each of the readers witnessed. Without readers, return everything.

        Rulings of any time are included, as the program tells rulings of any time.
        """
        whose = set(readers)
        told: dict[Subject, list[tuple[int, str]]] = {}
        for turn in self.turns[:until]:
            if whose <= set(turn.witnesses):
                for change in turn.changes:
                    told.setdefault(change.subject, []).append((turn.number, change.value))
        rulings = {
            one.subject: one for one in self.rulings if with_rulings and whose <= set(one.readers)
        }
        return {
            subject: Known(tuple(values), rulings.get(subject)) for subject, values in told.items()
        }


def make_subjects(count: int, cast: int, chance: random.Random) -> tuple[Subject, ...]:
    """Return `count` subjects, at most 100, of all kinds."""
    names = CAST[:cast]
    people = (*names, *_OTHERS)
    found: list[list[Subject]] = [
        [Subject(Kind.SCENE, "location", "The scene moves to", tuple(chance.sample(_SCENES, 5)))],
        [
            Subject(Kind.PLACE, f"{name}'s location", f"{name} is now in", _sample(chance, _PLACES))
            for name in people
        ],
        [
            Subject(
                Kind.HOLDER,
                f"holder of the {thing}",
                f"The {thing} is now with",
                _sample(chance, people),
            )
            for thing in _THINGS
        ],
        [
            _promise(chance.choice(names), chance.choice(people), thing, at % 2 == 0)
            for at, thing in enumerate(reversed(_THINGS[:25]))
        ],
        [
            Subject(Kind.INJURY, f"{name}'s {part}", f"{name}'s {part} is now", _INJURIES)
            for part in _PARTS
            for name in names
        ],
    ]
    for one in found:
        chance.shuffle(one)
    # The kinds take turns, so that a few subjects are of all kinds.
    order = [one[at] for at in range(max(map(len, found))) for one in found if at < len(one)]
    return tuple(order[:count])


def _sample(chance: random.Random, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(chance.sample(values, 4))


def _promise(giver: str, taker: str, thing: str, is_thread: bool) -> Subject:
    if is_thread:
        key = f"{giver} promised to mend the {thing} for {taker}"
        named = f"The promise of {giver} to mend the {thing} for {taker} is now"
        return Subject(Kind.THREAD, key, named, ("open", "kept", "broken"))
    key = f"{giver}'s promise to polish the {thing} for {taker}"
    return Subject(Kind.PROMISE, key, f"{key} is now", ("given", "kept", "broken"))


class Writer:
    """Writes the turns of a story by chance. The same seed gives the same turns."""

    def __init__(self, seed: int, *, subjects: int, cast: int = len(CAST)) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - a story has to be the same again
        found = make_subjects(subjects, cast, self.chance)
        self.story = Story(tuple(range(1, cast + 1)), found)
        self._attempts = 0

    def after(self, number: int, seed: int) -> "Writer":
        """Return a writer who goes on after this turn with other turns."""
        writer = copy(self)
        writer.chance = random.Random(seed)  # noqa: S311 - a story has to be the same again
        writer.story = self.story.until(number)
        # The marks of the two writers must differ.
        writer._attempts = self._attempts + 50_000
        return writer

    def next_turn(self) -> Turn:
        return self._turn(len(self.story.turns) + 1)

    def other_attempt(self) -> Turn:
        """Return another attempt at the latest turn, with other changes and other witnesses."""
        return self._turn(len(self.story.turns))

    def _turn(self, number: int) -> Turn:
        actor = self.chance.choice(self.story.readers)
        witnesses = set(self.story.readers)
        if self.chance.random() < _APART:
            count = self.chance.randrange(1, len(witnesses))
            witnesses = {actor, *self.chance.sample(self.story.readers, count)}
        self._attempts += 1
        mark = f"M{number:04d}x{self._attempts:05d}"
        changes = tuple(self._changes(number))
        return Turn(number, mark, actor, tuple(sorted(witnesses)), changes)

    def _changes(self, number: int) -> Iterable[Change]:
        if self.chance.random() < _QUIET:
            return
        now = self.story.known(until=number - 1, with_rulings=False)
        ruled = self.story.ruled
        count = self.chance.choice((1, 1, 2, 3))
        for subject in self.chance.sample(self.story.subjects, count):
            # A ruling holds, whatever is said later, so nothing is said about its subject.
            if subject not in ruled:
                before = now[subject].now if subject in now else ""
                yield Change(subject, self._value(subject, before))

    def _value(self, subject: Subject, before: str) -> str:
        if subject.kind in (Kind.THREAD, Kind.PROMISE):
            first, *ends = subject.values
            return self.chance.choice(ends) if before == first else first
        return self.chance.choice([one for one in subject.values if one != before])
