"""A small model of the world of an exploration, with which the program's world is compared.

It follows the rules of the mode's documentation and uses none of the program's code, so that a
mistake in the program cannot hide itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

WORDS, MOVE = 1, 5


def plain(name: str) -> str:
    """Return the form in which names are compared."""
    return " ".join(word for word in name.casefold().split() if word not in ("a", "an", "the"))


@dataclass
class ExpectedWorld:
    """The world. `at` has the place of each person, `met` everybody whom the player knows, `knows`
    what each person has learned, and `ties` what each person is to others."""

    player: str
    time: str
    places: list[str]
    at: dict[str, str]
    met: set[str]
    aliases: dict[str, str]
    tick: int = 0
    knows: dict[str, set[str]] = field(default_factory=dict)
    ties: dict[str, dict[str, str]] = field(default_factory=dict)
    known_as: dict[str, str] = field(default_factory=dict)

    def copy(self) -> "ExpectedWorld":
        return deepcopy(self)

    @property
    def here(self) -> str:
        return self.at[self.player]

    def hidden_here(self) -> list[str]:
        return [one for one in self.at if one not in self.met and self.at[one] == self.here]

    def find(self, name: str) -> str:
        """Return who has this name or alias, or ""."""
        by_form = {plain(alias): one for alias, one in self.aliases.items()}
        by_form |= {plain(one): one for one in self.at}
        return by_form.get(plain(name), "")

    def place_of(self, destination: str) -> str:
        """Return the place that the destination means without a model, or ""."""
        form = plain(destination)
        named = next((one for one in self.places if plain(one) == form), "")
        return named or self.known_as.get(form, "")

    def say(self) -> None:
        self.tick += WORDS

    def go(self, destination: str, place: str, time: str, along: Iterable[str]) -> None:
        """Go to the place. `place` is what a model would say that the destination means."""
        to = self.place_of(destination)
        if not to:
            to = next((one for one in self.places if plain(one) == plain(place)), place)
            if to not in self.places:
                self.places.append(to)
            if plain(destination) != plain(to):
                self.known_as[plain(destination)] = to
        if to == self.here:
            return
        found = {self.find(name) for name in along}
        here = self.here
        for one in found:
            if one in self.met and self.at[one] == here:
                self.at[one] = to
        self.at[self.player] = to
        self.tick += MOVE
        self.time = time

    def wait(self, time: str, ticks: int) -> None:
        self.tick += ticks
        self.time = time

    def discover(self, name: str) -> None:
        one = self.find(name)
        if not one:
            self.at[name] = self.here
            self.met.add(name)
        elif self.at[one] == self.here:
            self.met.add(one)

    def name_in_text(self, names: Iterable[str]) -> None:
        for name in names:
            if self.find(name) in self.hidden_here():
                self.met.add(self.find(name))

    def take(self, result: Mapping[str, Any]) -> None:
        """Take a late result: what a simulation or memory brought."""
        for part in (result, *result.get("places", ())):
            for event in part.get("events", ()):
                if event.get("is_learned"):
                    for name in event["witnesses"]:
                        self._learn(name, event["description"])
            for lesson in part.get("learned", ()):
                self._learn(lesson["who"], lesson["content"])
            for tie in part.get("relationships", ()):
                if tie["who"] in self.at:
                    self.ties.setdefault(tie["who"], {})[tie["name"]] = tie["description"]
            for one in part.get("movements", ()):
                if self.at.get(one["who"]) == part["place"] != self.here:
                    self.at[one["who"]] = one["to"]

    def _learn(self, name: str, content: str) -> None:
        if name in self.at:
            self.knows.setdefault(name, set()).add(content)

    def as_shown(self) -> dict[str, Any]:
        """Return the world in the form of `in_short`."""
        return {
            "tick": self.tick,
            "time": self.time,
            "places": sorted(self.places),
            "at": self.at,
            "met": sorted(self.met),
            "knows": {name: sorted(some) for name, some in self.knows.items() if some},
            "ties": {name: some for name, some in self.ties.items() if some},
        }


def in_short(world: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the API's world says, in a form that can be compared with an ExpectedWorld.

    Names of places and people must be different: this is checked here, because a dict would hide a
    double.
    """
    people: Sequence[Mapping[str, Any]] = world["characters"]
    for names in ([one["name"] for one in people], [one["name"] for one in world["locations"]]):
        assert len({plain(name) for name in names}) == len(names), names
    return {
        "tick": world["tick"],
        "time": world["narrative_time"],
        "places": sorted(one["name"] for one in world["locations"]),
        "at": {one["name"]: one["location"] for one in people},
        "met": sorted(one["name"] for one in people if one["is_discovered"]),
        "knows": {
            one["name"]: sorted(known["content"] for known in one["knowledge"])
            for one in people
            if one["knowledge"]
        },
        "ties": {
            one["name"]: {tie["name"]: tie["description"] for tie in one["relationships"]}
            for one in people
            if one["relationships"]
        },
    }
