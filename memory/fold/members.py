"""Finds the members of the cast whom memory names, and their whereabouts."""

from collections.abc import Sequence

from memory.blocks.cast_names import CastNames
from memory.blocks.same_names import EVERYONE, person_key, plain_key
from memory.fold.facts import Whereabouts
from memory.fold.records import Fold, Sighting
from sessions.roster import Character


class Members:
    """The names of the cast, and the other names that memory uses for its members."""

    def __init__(self, folded: Fold, roster: Sequence[Character]) -> None:
        names = {str(one.slot): one.name for one in roster} or folded.cast
        self.names = tuple(names.values())
        self._folded = folded
        self._cast = CastNames(self.names)
        # The names that memory uses for a member, by their keys. The slot and the lock's name come
        # first.
        self._known: dict[str, str] = {}
        for slot, name in names.items():
            for known in (slot, folded.cast.get(slot, "")):
                if known:
                    self._known.setdefault(plain_key(known), name)

    def name_of(self, key: str) -> str:
        """Return the name of the member of the cast whom this key names. The key may be a part of
        the member's name.

        Returns "" if no member has such a name, and also if several members have this part of a
        name.
        """
        key = plain_key(key)
        if key not in self._known:
            self._known[key] = self._cast.name_of(key)
        return self._known[key]

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
