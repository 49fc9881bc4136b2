"""The view of the world that the player's person has: the place, the time, the people and things
here, the person's own things and debts, the places to go to, and the latest events. Nothing in this
view is hidden from the person."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from explorer.descriptions import things_here
from explorer.map import PlaceMap, map_of
from explorer.state import last_seen_at, lately
from explorer.without_tools import has_no_tools, offered_places
from sessions.models import Change, Session
from world.state import Condition, Known, Person, Thing, World

# The column shows at most this many facts that the player knows, the newest ones.
_MOST_KNOWN = 12


@dataclass(frozen=True)
class Noted:
    """A thing or a condition that was noted in play, with the number of the prompt that made it.
    The number is 0 if it was not made in this chapter."""

    text: str
    state: str = ""
    prompt: int = 0


@dataclass(frozen=True)
class SeenPerson:
    """A person who is here, with the last fact that the person learned, if the player could have
    noticed it, and with the person's things and conditions."""

    name: str
    description: str
    learned: str
    noted: list[Noted]


@dataclass(frozen=True)
class SeenPlace:
    """A place where the player is not, with its number among all places, and with the people who
    were last seen there."""

    number: int
    name: str
    people: str


@dataclass(frozen=True)
class KnownToPlayer:
    content: str
    came: str


@dataclass(frozen=True)
class PlayersView:
    world: World
    chapter: Session

    @property
    def you(self) -> str:
        return self.world.player.name if self.world.player else ""

    @property
    def place(self) -> str:
        return self.world.player_location

    @property
    def about(self) -> str:
        here = self.world.places.get(self.place)
        return here.description if here else ""

    @property
    def time(self) -> str:
        return self.world.narrative_time

    @cached_property
    def people(self) -> list[SeenPerson]:
        return [
            SeenPerson(
                one.name,
                one.description,
                self._learned_here(one),
                [*self._held_by(one.name), *self._conditions(one.conditions)],
            )
            for one in self.world.present()
        ]

    @property
    def things_held(self) -> list[Noted]:
        return self._held_by(self.you) if self.you else []

    @property
    def conditions(self) -> list[Noted]:
        """The player's conditions, debts and promises."""
        return self._conditions(self.world.player.conditions if self.world.player else ())

    @property
    def noted_here(self) -> list[Noted]:
        """The things at this place, and the conditions of the place."""
        here = self.world.places.get(self.place)
        lying = [one for one in self._things if not one.holder]
        return [*map(self._thing, lying), *self._conditions(here.conditions if here else ())]

    @property
    def names(self) -> str:
        return ", ".join(one.name for one in self.people)

    @property
    def places(self) -> list[SeenPlace]:
        """The other places, each with the people whom the player last saw there."""
        return [
            SeenPlace(number, name, ", ".join(one.name for one in self._seen_at.get(name, ())))
            for number, name in enumerate(self.world.places)
            if name != self.place
        ]

    @cached_property
    def moves_by_click(self) -> bool:
        return has_no_tools(self.chapter)

    @property
    def offered(self) -> list[SeenPlace]:
        """The places that the player may have wanted to go to with the latest words."""
        named = offered_places(self.chapter, self.world)
        return [one for one in self.places if one.name in named]

    @property
    def lost(self) -> str:
        """The names of the people whose place the player does not know."""
        return ", ".join(one.name for one in self._seen_at.get("", ()))

    @property
    def map(self) -> PlaceMap:
        seen = {name: [one.name for one in people] for name, people in self._seen_at.items()}
        return map_of(self.world, seen | {self.place: [one.name for one in self.people]})

    @property
    def known(self) -> list[KnownToPlayer]:
        """The facts that the player knows, the newest first."""
        player = self.world.player
        facts = player.knowledge[-_MOST_KNOWN:] if player else ()
        return [KnownToPlayer(one.content, _came(one)) for one in reversed(facts)]

    @property
    def lately(self) -> list[str]:
        return lately(self.world)[::-1]

    @cached_property
    def _seen_at(self) -> dict[str, list[Person]]:
        return last_seen_at(self.world)

    @cached_property
    def _things(self) -> list[Thing]:
        return things_here(self.world)

    def _held_by(self, name: str) -> list[Noted]:
        return [self._thing(one) for one in self._things if one.holder == name]

    def _thing(self, one: Thing) -> Noted:
        return Noted(one.name, one.state, self._prompt_of(one.made_by))

    def _conditions(self, conditions: Iterable[Condition]) -> list[Noted]:
        return [Noted(one.text, "", self._prompt_of(one.made_by)) for one in conditions]

    def _prompt_of(self, made_by: str) -> int:
        return self._prompts.get(str(_change_id(made_by)), 0)

    @cached_property
    def _prompts(self) -> dict[str, int]:
        """The number of the prompt of each change that made a thing or a condition."""
        here = self.world.places.get(self.place)
        of_people = [one.conditions for one in self.world.at(self.place)]
        of_place = here.conditions if here else ()
        made_by = [one.made_by for one in (*chain(*of_people), *of_place)]
        ids = set(filter(None, map(_change_id, [*made_by, *(one.made_by for one in self._things)])))
        if not ids:
            return {}
        rows = Change.objects.filter(session=self.chapter, change_id__in=ids)
        numbers = rows.values_list("change_id", "attempt__turn__number")
        return {str(change): number for change, number in numbers}

    def _learned_here(self, person: Person) -> str:
        """Return the last fact that the person learned, if the player knows it too. The player must
        not see a person's other knowledge."""
        player = self.world.player
        shared = {one.content for one in player.knowledge} if player else set()
        last = (one.content for one in reversed(person.knowledge) if one.content in shared)
        return next(last, "")


def _change_id(made_by: str) -> uuid.UUID | None:
    """Return the id of the change, or None for the beginning. A chapter from a file may have any
    other value there."""
    try:
        return uuid.UUID(made_by.partition(".")[0])
    except ValueError:
        return None


def _came(known: Known) -> str:
    if known.source == "told":
        return f"{known.source_character} told you" if known.source_character else "you were told"
    return "you saw it" if known.source == "witnessed" else "you made it out"
