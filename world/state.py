"""The world of a chapter that is played in places: who is where, what time it is, and who knows
what.

Several ways to play use it. A world is never modified: `world.changes` makes another one of it.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from sessions.language.spelling import plain_spelling
from world.names import is_description, normalized, parts_of, plain

FoundT = TypeVar("FoundT")
# The ways to learn a fact.
Source = Literal["witnessed", "told", "inferred"]
SOURCES: tuple[Source, ...] = ("witnessed", "told", "inferred")


@dataclass(frozen=True)
class Known:
    """A fact that a person knows. `acquired_at` is a tick, and `source_character` is the name of
    the person who told the fact, or "". `is_kept` says that the person knew it when the story
    began."""

    id: str
    content: str
    acquired_at: int = 0
    source: Source = "witnessed"
    source_character: str = ""
    is_kept: bool = False


@dataclass(frozen=True)
class Condition:
    """A state of a person or a place that lasts until it is over, such as "right hand cut".

    `since` is a tick. `made_by` is the id of the change that made it, or "" for the beginning.
    """

    text: str
    since: int = 0
    made_by: str = ""


@dataclass(frozen=True)
class Thing:
    """A thing that matters. Somebody holds it or it is at a place, never both; it is nowhere if
    both names are "". `state` says how it is, such as "wedged". `since` and `made_by` belong to the
    latest change, as in a condition."""

    name: str
    description: str = ""
    holder: str = ""
    place: str = ""
    state: str = ""
    since: int = 0
    made_by: str = ""


@dataclass(frozen=True)
class Place:
    """A place with its canonical name. `unseen_since` is the tick when the player was last there or
    when it was last simulated, and `unseen_from` is this time in the story's words, or "". `ways`
    are the names of the places that a known way leads to; each way is known from both of its
    ends."""

    name: str
    description: str = ""
    unseen_since: int = 0
    conditions: tuple[Condition, ...] = ()
    ways: tuple[str, ...] = ()
    unseen_from: str = ""


@dataclass(frozen=True)
class Person:
    """A person of the world. `location` is the canonical name of a place, or "" for nowhere.

    `encounter_chance` is the chance that the narrator is offered a hidden person at a turn, from 0
    to 1, or None for always. `relationships` has a description for each other person's name.
    `tied_at_start` has the descriptions at the beginning of the story. `seen_at` is the place where
    the player last saw this person, or "" for never. `arrived_at` is the tick when the person came
    to the present place.
    """

    name: str
    description: str = ""
    goals: str = ""
    location: str = ""
    is_player: bool = False
    is_discovered: bool = True
    encounter_chance: float | None = None
    aliases: tuple[str, ...] = ()
    knowledge: tuple[Known, ...] = ()
    relationships: Mapping[str, str] = field(default_factory=dict)
    pronouns: str = ""
    conditions: tuple[Condition, ...] = ()
    seen_at: str = ""
    arrived_at: int = 0
    tied_at_start: Mapping[str, str] = field(default_factory=dict)

    def tie_to(self, name: str) -> str:
        """Return the tie of the person to the person with this name, or "": the tie at the
        beginning of the story, and how it has changed."""
        first, now = self.tied_at_start.get(name, ""), self.relationships.get(name, "")
        return f"{first} Since then: {now}" if first and now and now != first else now

    @property
    def kept(self) -> list[Known]:
        """The facts that the person knew when the story began."""
        return [one for one in self.knowledge if one.is_kept]

    @property
    def came_to_know(self) -> list[Known]:
        """The facts that the person has learned since, the oldest first."""
        return [one for one in self.knowledge if not one.is_kept]


@dataclass(frozen=True)
class Happening:
    """Something that happened in the world. `witnesses` are the names of the people who know of
    it."""

    description: str
    tick: int
    location: str
    witnesses: tuple[str, ...] = ()


@dataclass(frozen=True)
class World:
    """The state of the world at one moment.

    `places`, `people` and `things` are in the order in which they came, by their names. `known_as`
    has the canonical name of the place for each other name of a place that was resolved before.
    `tick` counts the steps of the clock, and `narrative_time` says the time in the story's words.
    """

    places: Mapping[str, Place] = field(default_factory=dict)
    people: Mapping[str, Person] = field(default_factory=dict)
    tick: int = 0
    narrative_time: str = ""
    happenings: tuple[Happening, ...] = ()
    known_as: Mapping[str, str] = field(default_factory=dict)
    things: Mapping[str, Thing] = field(default_factory=dict)

    @property
    def player(self) -> Person | None:
        return next((one for one in self.people.values() if one.is_player), None)

    @property
    def player_location(self) -> str:
        return self.player.location if self.player else ""

    def at(self, place: str) -> list[Person]:
        """Return the people at the place, the player included."""
        return [one for one in self.people.values() if place and one.location == place]

    def present(self) -> list[Person]:
        """Return the discovered people who are where the player is, without the player."""
        here = self.at(self.player_location)
        return [one for one in here if one.is_discovered and not one.is_player]

    def elsewhere(self) -> list[Person]:
        """Return the discovered people who are not where the player is."""
        here = self.player_location
        known = (one for one in self.people.values() if one.is_discovered and not one.is_player)
        return [one for one in known if one.location != here]

    def hidden(self) -> list[Person]:
        """Return the people who are where the player is, and whom the player has not met yet."""
        here = self.at(self.player_location)
        return [one for one in here if not (one.is_discovered or one.is_player)]

    def find_person(self, name: str) -> Person | None:
        """Return the person with this name or alias, whatever its case, articles and spaces, or
        else the only person whose name differs only in the marks of letters."""
        if name in self.people:
            return self.people[name]
        wanted = normalized(name)
        if not wanted:
            return None
        named = (one for one in self.people.values() if normalized(one.name) == wanted)
        also = (
            one for one in self.people.values() if wanted in {normalized(a) for a in one.aliases}
        )
        alike = (
            one
            for one in self.people.values()
            if plain(name) in {plain(own) for own in (one.name, *one.aliases)}
        )
        return next(named, None) or next(also, None) or _only(alike)

    def find_called(self, name: str, among: Iterable[Person] | None = None) -> Person | None:
        """Return the person whom this name means in a text: the person with this name or alias, or
        else the only person of `among` whose name has all words of this name, such as Osk Brandt
        for Osk.

        Without `among`, the people at the player's place are searched first, and then everybody. A
        description such as "the smith" never means somebody elsewhere: there may be several smiths,
        and John Smith need not be a smith.
        """
        if found := self.find_person(name):
            return found
        everybody = list(self.people.values() if among is None else among)
        named = _having(set(normalized(name).split()), everybody, parts_of)
        named = named or _having(set(plain(name).split()), everybody, _plain_parts_of)
        here = [one for one in named if among is None and one.location == self.player_location]
        if among is None and is_description(name):
            named = []
        return next((some[0] for some in (here, named) if len(some) == 1), None)

    def find_place(self, name: str) -> Place | None:
        """Return the place with this name, whatever its case, articles and spaces, or the place
        that the name was resolved to before, or else the only place whose name differs only in the
        marks of letters."""
        if name in self.places:
            return self.places[name]
        wanted = normalized(name)
        if not wanted:
            return None
        found = next((one for one in self.places.values() if normalized(one.name) == wanted), None)
        known = found or self.places.get(self.known_as.get(wanted, ""))
        return known or _only(one for one in self.places.values() if plain(one.name) == plain(name))

    def find_thing(self, name: str) -> Thing | None:
        """Return the thing with this name, whatever its case, articles and spaces."""
        if name in self.things:
            return self.things[name]
        wanted = normalized(name)
        return next((one for one in self.things.values() if normalized(one.name) == wanted), None)

    def place_of(self, thing: Thing) -> str:
        """Return the name of the place of the thing, which is the place of its holder if it has
        one, or ""."""
        holder = self.people.get(thing.holder)
        return holder.location if holder else thing.place


def _having(
    words: Set[str], people: Iterable[Person], parts: Callable[[str], Set[str]]
) -> list[Person]:
    return [one for one in people if words and words <= parts(one.name)]


def _plain_parts_of(name: str) -> frozenset[str]:
    return frozenset(map(plain_spelling, parts_of(name)))


def _only(found: Iterable[FoundT]) -> FoundT | None:
    """Return the entry if exactly one is found, and otherwise None."""
    several = list(found)
    return several[0] if len(several) == 1 else None
