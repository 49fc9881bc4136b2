"""What the player's person sees and knows of the world: the place, the time, who is here, where one
could go, and what happened lately. Nothing in it is hidden from this person."""

from dataclasses import dataclass
from functools import cached_property

from explorer.state import lately
from world.state import Known, Person, World

# How much of what the player knows the column shows: the newest.
_MOST_KNOWN = 12


@dataclass(frozen=True)
class SeenPerson:
    """Somebody who is here, with what the player could have noticed that they learned last."""

    name: str
    description: str
    learned: str


@dataclass(frozen=True)
class KnownToPlayer:
    content: str
    came: str


@dataclass(frozen=True)
class PlayersView:
    world: World

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
            SeenPerson(one.name, one.description, self._learned_here(one))
            for one in self.world.present()
        ]

    @property
    def names(self) -> str:
        return ", ".join(one.name for one in self.people)

    @property
    def ways(self) -> list[str]:
        return [name for name in self.world.places if name != self.place]

    @property
    def known(self) -> list[KnownToPlayer]:
        """What the player knows, the newest first."""
        player = self.world.player
        facts = player.knowledge[-_MOST_KNOWN:] if player else ()
        return [KnownToPlayer(one.content, _came(one)) for one in reversed(facts)]

    @property
    def lately(self) -> list[str]:
        return lately(self.world)[::-1]

    def _learned_here(self, person: Person) -> str:
        """Return what the person learned last, if the player knows it too. Whatever else a person
        knows is no business of the player."""
        player = self.world.player
        shared = {one.content for one in player.knowledge} if player else set()
        last = (one.content for one in reversed(person.knowledge) if one.content in shared)
        return next(last, "")


def _came(known: Known) -> str:
    if known.source == "told":
        return f"{known.source_character} told you" if known.source_character else "you were told"
    return "you saw it" if known.source == "witnessed" else "you made it out"
