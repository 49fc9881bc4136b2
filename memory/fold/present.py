"""Derives the present state from a fold: applies the rulings, and uses the names of the chapter's
cast."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

from memory.blocks.same_names import key_of
from memory.fold.facts import Fact, Happening, Past, Whereabouts
from memory.fold.history import (
    around,
    at_stake,
    closed,
    finding,
    finds,
    opened,
    past_outcomes,
    past_places,
    shift_fact,
    shifts,
    timeline,
)
from memory.fold.members import Members
from memory.fold.past_values import States
from memory.fold.records import Fold, Mention, Ruling, Setting, Truth
from memory.fold.rulings import Rulings
from sessions.roster import Character


class Present:
    """The present state of memory, and its history.

    Canon is in the order in which it was first said. The other facts that hold now are in the order
    in which they were last mentioned, the oldest first. The history is in the order in which memory
    told it for each subject. Everything is worked out when it is first asked for.
    """

    def __init__(self, folded: Fold, roster: Sequence[Character]) -> None:
        self._folded = folded
        self._rulings = Rulings(folded)
        self._cast = Members(folded, roster)

    @property
    def settings(self) -> tuple[Setting, ...]:
        return self._folded.settings

    @cached_property
    def canon(self) -> tuple[Fact, ...]:
        truths = self._folded.truths.values()
        return tuple(_fact_of(one) for one in truths if one.ruling is not Ruling.UNTRUE)

    @property
    def withdrawn(self) -> tuple[Fact, ...]:
        return self._rulings.withdrawn

    @cached_property
    def scene(self) -> Fact | None:
        return _scene(self._folded)

    @cached_property
    def around(self) -> tuple[Fact, ...]:
        return tuple(around(self._folded, self._rulings))

    @cached_property
    def _whereabouts(self) -> tuple[Whereabouts, ...]:
        seen = self._cast.whereabouts()
        return tuple(one for one in seen if self._rulings.spare(one.text))

    @cached_property
    def cast(self) -> tuple[Whereabouts, ...]:
        return tuple(one for one in self._whereabouts if one.name in self._cast.names)

    @cached_property
    def others(self) -> tuple[Whereabouts, ...]:
        seen = (one for one in self._whereabouts if one.name not in self._cast.names)
        return tuple(_by_latest(seen))

    @cached_property
    def open_threads(self) -> tuple[Fact, ...]:
        return tuple(_by_latest(_threads(self._folded, self._rulings, is_open=True)))

    @cached_property
    def closed_threads(self) -> tuple[Fact, ...]:
        return tuple(_by_latest(_threads(self._folded, self._rulings, is_open=False)))

    @cached_property
    def _states(self) -> States:
        return States(self._folded, self._rulings, self._cast, self._whereabouts)

    @cached_property
    def state(self) -> tuple[Fact, ...]:
        return tuple(_by_latest(self._states.facts()))

    @cached_property
    def relationships(self) -> tuple[Fact, ...]:
        return tuple(_by_latest(_ties(self._folded, self._rulings, self._cast)))

    @cached_property
    def items(self) -> tuple[Fact, ...]:
        return tuple(_by_latest(_things(self._folded, self._rulings)))

    @cached_property
    def questions(self) -> tuple[Fact, ...]:
        asked = (one for one in self._folded.questions.values() if not one.is_settled)
        return tuple(
            _by_latest(
                Fact(one.text, one.first, one.latest, mention=Mention(one.first, one.place))
                for one in asked
            )
        )

    @cached_property
    def timeline(self) -> tuple[Happening, ...]:
        return tuple(timeline(self._folded, self._rulings, self._cast))

    @cached_property
    def finds(self) -> tuple[Fact, ...]:
        """Everything that was found, each time that memory told more of it."""
        return tuple(finds(self._folded, self._rulings))

    @cached_property
    def shifts(self) -> tuple[Fact, ...]:
        """All shifts between people."""
        return tuple(shifts(self._folded, self._rulings, self._cast))

    @cached_property
    def opened(self) -> tuple[Fact, ...]:
        """Everything that was said about the open threads."""
        return tuple(opened(self._folded, self._rulings))

    @cached_property
    def closed(self) -> tuple[Fact, ...]:
        """The threads that are closed, each with its stakes and its last outcome."""
        return tuple(closed(self._folded, self._rulings))

    @cached_property
    def past(self) -> tuple[Past, ...]:
        """The values that no longer hold, the places that the scene has left, and the outcomes of
        threads that no longer hold."""
        return (
            *past_places(self._folded, self._rulings),
            *self._states.past(),
            *past_outcomes(self._folded, self._rulings),
        )


def present(folded: Fold, roster: Sequence[Character] = ()) -> Present:
    """Return the present state. The `roster` has the names of the cast. Without a roster, the
    lock's names are used."""
    return Present(folded, roster)


FactT = TypeVar("FactT", Fact, Whereabouts)


def _scene(folded: Fold) -> Fact | None:
    """Return the place of the scene. Returns None if no place is known, or if the Game Master
    withdrew the place after the scene came to this place."""
    scene = folded.scene
    if scene is None or not scene.place:
        return None
    truth = folded.truths.get(key_of(scene.place))
    is_untrue = truth is not None and truth.ruling is Ruling.UNTRUE
    if truth and is_untrue and truth.latest.last >= scene.prompts.last:
        return None
    mention = Mention(scene.prompts, "location")
    return Fact(scene.place, scene.prompts, scene.prompts, mention=mention)


def _threads(folded: Fold, rulings: Rulings, *, is_open: bool) -> Iterable[Fact]:
    for thread in folded.threads.values():
        stands = rulings.spare(thread.text)
        if thread.is_named and (thread.is_open and stands) is is_open:
            aside = at_stake(thread, rulings) if is_open else thread.outcome
            yield Fact(
                thread.text,
                thread.first,
                thread.latest,
                aside,
                thread.is_in_lock,
                mention=thread.told[-1].mention,
            )


def _ties(folded: Fold, rulings: Rulings, cast: Members) -> Iterator[Fact]:
    for tie in folded.ties.values():
        shift = tie.told[-1]
        fact = shift_fact(tie, shift, rulings, cast)
        if rulings.spare(fact.text):
            yield replace(fact, first=tie.first)


def _things(folded: Fold, rulings: Rulings) -> Iterator[Fact]:
    for thing in folded.things.values():
        if rulings.spare(thing.name):
            aside = finding(thing, rulings)
            mention = thing.told[-1].mention
            yield Fact(thing.name, thing.first, thing.latest, aside, mention=mention)


def _fact_of(truth: Truth) -> Fact:
    mention = Mention(truth.first, truth.place)
    return Fact(truth.text, truth.first, truth.latest, is_in_lock=truth.is_in_lock, mention=mention)


def _by_latest(facts: Iterable[FactT]) -> list[FactT]:
    return sorted(facts, key=lambda fact: fact.latest.last)
