"""The prompts that a delta of memory tells: the player's place at each prompt, and the people who
were there."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.handing_on import initial_world
from explorer.state import apply_change
from sessions.models import Attempt, Change
from sessions.play.played_world import changes_that_count, fold_world
from world.state import Person, World


@dataclass(frozen=True)
class Moment:
    """A prompt of a stretch: the player's place and the tick after the prompt, and the names of
    everybody who was at the player's place at any moment of the prompt."""

    place: str
    tick: int
    there: frozenset[str]


@dataclass(frozen=True)
class ToldStretch:
    """A stretch from its `first` prompt on. `world` is the world after it. `moments` has its
    prompts, and the last prompt before it."""

    first: int
    world: World
    moments: Mapping[int, Moment]

    def moment_at(self, numbers: Sequence[int]) -> Moment:
        """Return the moment of the first of these prompts, or the last moment if no prompts are
        given."""
        if not numbers:
            return self.moments[max(self.moments)]
        before = [number for number in self.moments if number <= min(numbers)]
        return self.moments[max(before, default=min(self.moments))]

    def there(self, numbers: Sequence[int] = ()) -> frozenset[str]:
        """Return the names of everybody who was there at these prompts, or at any prompt of the
        stretch if none of these belongs to it."""
        own = [number for number in self.moments if number >= self.first]
        at = [number for number in own if number in numbers] or own
        return frozenset().union(*(self.moments[number].there for number in at))

    def called(self, name: str, numbers: Sequence[int] = ()) -> str:
        """Return the person's name as the world has it, if the person was there at these prompts,
        or ""."""
        return self._find(name, [self.world.people[one] for one in self.there(numbers)])

    def known_as(self, name: str) -> str:
        """Return the person's name as the world has it. Return "" if there is no such person, or if
        the person is hidden, because the story does not tell this name yet."""
        everybody = self.world.people.values()
        return self._find(name, [one for one in everybody if one.is_discovered or one.is_player])

    def _find(self, name: str, among: Sequence[Person]) -> str:
        person = self.world.find_called(name, among)
        return person.name if person is not None and person in among else ""


def told_stretch(attempt: Attempt, first: int) -> ToldStretch:
    """Return the stretch from the prompt `first` to the attempt's turn."""
    chapter = attempt.session
    last = attempt.turn.number if attempt.turn else chapter.prompt_index + 1
    before = changes_that_count(chapter, before=first)
    world = fold_world(initial_world(chapter), before, apply_change)
    moments = {first - 1: Moment(world.player_location, world.tick, names_there(world))}
    since = changes_that_count(chapter, attempt=attempt).exclude(attempt__turn__number__lt=first)
    of_turns: defaultdict[int, list[Change]] = defaultdict(list)
    for change in since.select_related("attempt__turn"):
        of_turns[change.attempt.turn.number if change.attempt.turn else last].append(change)
    for number in range(first, last + 1):
        there = names_there(world)
        for change in of_turns[number]:
            world = apply_change(world, change)
            there |= names_there(world)
        moments[number] = Moment(world.player_location, world.tick, there)
    return ToldStretch(first, world, moments)


def names_there(world: World) -> frozenset[str]:
    here = world.at(world.player_location)
    return frozenset(one.name for one in here if one.is_discovered or one.is_player)
