"""Derives the present state from a fold: applies the rulings, and uses the names of the chapter's
cast."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from memory.fold.names import (
    EVERYONE,
    closed_by,
    is_scene_place,
    key_of,
    person_key,
    placed_person,
    plain_key,
)
from memory.fold.records import Fold, Prompts, Ruling, Setting, Sighting, Thread, Truth
from sessions.roster import Character

# The most changes at the place of the scene that are shown. If there are more, only the latest are
# shown.
_MAX_AROUND = 6


@dataclass(frozen=True)
class Fact:
    """A fact of memory.

    `text` is one line, and a ruling names this text to withdraw the fact. `aside` is further
    knowledge about the fact. `first` and `latest` are the prompts that named the fact first and
    last.
    """

    text: str
    first: Prompts
    latest: Prompts
    aside: str = ""
    is_in_lock: bool = False


@dataclass(frozen=True)
class Whereabouts:
    name: str
    place: str
    first: Prompts
    latest: Prompts

    @property
    def text(self) -> str:
        return f"{self.name}: {self.place}"


@dataclass(frozen=True)
class Present:
    """The present state of memory.

    Canon is in the order in which it was first said. Other facts are in the order in which they
    were last mentioned, the oldest first. If a request lacks room, the first facts of each kind are
    left out first.
    """

    settings: tuple[Setting, ...]
    canon: tuple[Fact, ...]
    withdrawn: tuple[Fact, ...]
    scene: Fact | None
    around: tuple[str, ...]
    cast: tuple[Whereabouts, ...]
    others: tuple[Whereabouts, ...]
    open_threads: tuple[Fact, ...]
    closed_threads: tuple[Fact, ...]
    state: tuple[Fact, ...]
    relationships: tuple[Fact, ...]
    items: tuple[Fact, ...]
    questions: tuple[Fact, ...]
    timeline: tuple[Fact, ...]


def present(folded: Fold, roster: Sequence[Character] = ()) -> Present:
    """Return the present state. The `roster` has the names of the cast. Without a roster, the
    lock's names are used."""
    rulings = _Rulings(folded)
    cast = _Cast(folded, roster)
    whereabouts = [one for one in cast.whereabouts() if rulings.spare(one.text)]
    return Present(
        settings=folded.settings,
        canon=tuple(
            _fact_of(truth) for truth in folded.truths.values() if truth.ruling is not Ruling.UNTRUE
        ),
        withdrawn=rulings.withdrawn,
        scene=_scene(folded),
        around=folded.scene.around[-_MAX_AROUND:] if folded.scene else (),
        cast=tuple(one for one in whereabouts if one.name in cast.names),
        others=tuple(_by_latest(one for one in whereabouts if one.name not in cast.names)),
        open_threads=tuple(_by_latest(_threads(folded, rulings, is_open=True))),
        closed_threads=tuple(_by_latest(_threads(folded, rulings, is_open=False))),
        state=tuple(_by_latest(_state(folded, rulings, cast))),
        relationships=tuple(_by_latest(_ties(folded, rulings, cast))),
        items=tuple(_by_latest(_things(folded, rulings))),
        questions=tuple(
            _by_latest(
                Fact(one.text, one.first, one.latest)
                for one in folded.questions.values()
                if not one.is_settled
            )
        ),
        timeline=tuple(
            Fact(one.text, one.prompts, one.prompts, one.aside)
            for one in folded.moments
            if rulings.spare(one.text)
        ),
    )


FactT = TypeVar("FactT", Fact, Whereabouts)


class _Rulings:
    """The facts that the Game Master withdrew. No part of the present state may repeat them."""

    def __init__(self, folded: Fold) -> None:
        gone = {key: truth for key, truth in folded.truths.items() if truth.ruling is Ruling.UNTRUE}
        instead = {key_of(one.replaces): one.canon for one in folded.corrections if one.replaces}
        self._keys = gone.keys()
        self.withdrawn = tuple(
            Fact(
                truth.text,
                truth.first,
                truth.latest,
                instead.get(key, ""),
                is_in_lock=truth.is_in_lock,
            )
            for key, truth in gone.items()
        )

    def spare(self, text: str) -> bool:
        return not self._keys or key_of(text) not in self._keys


class _Cast:
    """The names of the cast, and the other names that memory uses for its members."""

    def __init__(self, folded: Fold, roster: Sequence[Character]) -> None:
        names = {str(one.slot): one.name for one in roster} or folded.cast
        self.names = tuple(names.values())
        self._folded = folded
        self._by_key: dict[str, str] = {}
        for slot, name in names.items():
            for known in (slot, folded.cast.get(slot, ""), name):
                if known:
                    self._by_key.setdefault(plain_key(known), name)
        self._words = [(set(plain_key(name).split()), name) for name in self.names]

    def name_of(self, key: str) -> str:
        """Return the name of the member of the cast whom this key names. The key may be a part of
        the member's name.

        Returns "" if no member has such a name, or if several members have this part of a name.
        """
        key = plain_key(key)
        if key not in self._by_key:
            words = set(key.split())
            fits = [name for known, name in self._words if words and words <= known]
            self._by_key[key] = fits[0] if len(fits) == 1 else ""
        return self._by_key[key]

    def displayed(self, name: str) -> str:
        return self.name_of(person_key(name)) or name

    def is_person(self, key: str) -> bool:
        return key == EVERYONE or bool(self.name_of(key)) or key in self._folded.people

    def whereabouts(self) -> list[Whereabouts]:
        """Return the whereabouts of the cast in slot order, and then of all other people."""
        seen: dict[str, Sighting] = {}
        for key, sighting in self._folded.sightings.items():
            names = list(self.names) if key == EVERYONE else [self._named(key)]
            for name in names:
                if name and sighting.place:
                    seen[name] = _later(seen.get(name), sighting)
        order = [*self.names, *(name for name in seen if name not in self.names)]
        return [
            Whereabouts(name, seen[name].place, seen[name].first, seen[name].latest)
            for name in dict.fromkeys(order)
            if name in seen
        ]

    def _named(self, key: str) -> str:
        return self.name_of(key) or self._folded.people.get(key, "")


def _later(one: Sighting | None, other: Sighting) -> Sighting:
    if one is None:
        return other
    # If two sightings are from the same block, a stated place is preferred to a guess.
    return max(one, other, key=lambda sighting: (sighting.latest.last, sighting.is_stated))


def _scene(folded: Fold) -> Fact | None:
    """Return the place of the scene. Returns None if no place is known, or if the Game Master
    withdrew the place after the scene came there."""
    scene = folded.scene
    if scene is None or not scene.place:
        return None
    truth = folded.truths.get(key_of(scene.place))
    is_untrue = truth is not None and truth.ruling is Ruling.UNTRUE
    if truth and is_untrue and truth.latest.last >= scene.prompts.last:
        return None
    return Fact(scene.place, scene.prompts, scene.prompts)


def _threads(folded: Fold, rulings: _Rulings, *, is_open: bool) -> Iterable[Fact]:
    for thread in folded.threads.values():
        stands = rulings.spare(thread.text)
        if thread.is_named and (thread.is_open and stands) is is_open:
            aside = _open_aside(thread) if is_open else thread.outcome
            yield Fact(thread.text, thread.first, thread.latest, aside, thread.is_in_lock)


def _open_aside(thread: Thread) -> str:
    parts = [("at stake", thread.stakes), ("next", thread.trigger)]
    return "; ".join(f"{lead}: {text}" for lead, text in parts if text)


def _state(folded: Fold, rulings: _Rulings, cast: _Cast) -> Iterable[Fact]:
    for key, value in folded.values.items():
        text = f"{value.key}: {value.value}" if value.value else value.key
        who = placed_person(key)
        told_elsewhere = (
            is_scene_place(key)
            or (who and cast.is_person(who))
            or any(thread.is_named for one in closed_by(key) if (thread := folded.threads.get(one)))
        )
        if not told_elsewhere and rulings.spare(text):
            yield Fact(text, value.first, value.latest, value.notes)


def _ties(folded: Fold, rulings: _Rulings, cast: _Cast) -> Iterable[Fact]:
    for tie in folded.ties.values():
        people = " and ".join(dict.fromkeys(cast.displayed(one) for one in tie.people))
        text = f"{people}: {tie.change}" if people else tie.change
        if rulings.spare(text):
            yield Fact(text, tie.first, tie.latest, tie.evidence)


def _things(folded: Fold, rulings: _Rulings) -> Iterable[Fact]:
    for thing in folded.things.values():
        if rulings.spare(thing.name):
            finder = f"by {thing.finder}" if thing.finder else ""
            aside = "; ".join(part for part in (finder, thing.why) if part)
            yield Fact(thing.name, thing.first, thing.latest, aside)


def _fact_of(truth: Truth) -> Fact:
    return Fact(truth.text, truth.first, truth.latest, is_in_lock=truth.is_in_lock)


def _by_latest(facts: Iterable[FactT]) -> list[FactT]:
    return sorted(facts, key=lambda fact: fact.latest.last)
