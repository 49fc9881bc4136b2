"""What people learn in play, and what they become to each other.

Agent 8 is asked for it beside its own keys, so that it takes no call of its own. What it tells is a
late result.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field

from agents.prompting.memory_additions import MemoryAddition, Told
from explorer.setup_parts import LINE_LIMIT
from explorer.state import apply_change, initial_world
from memory.models import MemoryBlock
from sessions.limits import AGENT_NAME_CHAR_LIMIT, CHANGE_CHAR_LIMIT
from sessions.models import Attempt
from sessions.world import changes_that_count
from world.changes import REMEMBERED
from world.state import Person, Source, World

# The most entries of each kind that one stretch brings.
_MOST = 60
# The keys of a block and of an event in it.
_EVENTS, _EVENT, _PARTICIPANTS, _AT = "major_events", "event", "participants", "at"


class Lesson(BaseModel):
    who: str = Field(min_length=1, max_length=AGENT_NAME_CHAR_LIMIT)
    what: str = Field(min_length=1, max_length=LINE_LIMIT)
    source: Source = "witnessed"
    # The name of the key is a word of Python's.
    from_whom: str = Field("", alias="from", max_length=AGENT_NAME_CHAR_LIMIT)


class Relationship(BaseModel):
    who: str = Field(min_length=1, max_length=AGENT_NAME_CHAR_LIMIT)
    name: str = Field(min_length=1, max_length=AGENT_NAME_CHAR_LIMIT)
    description: str = Field("", max_length=LINE_LIMIT)


class Learned(BaseModel):
    learned: list[Lesson] = []
    relationships: list[Relationship] = []


def brings(attempt: Attempt, told: Sequence[Told]) -> dict[str, Any] | None:
    """Return what was learned by people who were there, and the events that the player saw."""
    if not told:
        return None
    stretch = _stretch(attempt, told[0].first)
    known = _Names(stretch)
    entries = entries_of(
        [lesson for one in told for lesson in one.fields.learned],
        [tie for one in told for tie in one.fields.relationships],
        who=known.there,
        others=known.of_world,
    )
    payload: dict[str, list[Any]] = {
        **{name: some[:_MOST] for name, some in entries.items()},
        "events": list(_events(attempt, stretch, known))[:_MOST],
    }
    shorten(payload, list(payload.values()))
    return payload if any(payload.values()) else None


def entries_of(
    lessons: Iterable[Lesson],
    ties: Iterable[Relationship],
    *,
    who: Callable[[str], str],
    others: Callable[[str], str],
) -> dict[str, list[Any]]:
    """Return what was learned and what people became, as the change REMEMBERED has it.

    `who` and `others` return the name of a person as the world has it, or "" for somebody who could
    not learn anything or be named. Entries of such people are left out.
    """
    return {
        "learned": [
            {"who": name, "content": one.what, "source": one.source, "from": others(one.from_whom)}
            for one in lessons
            if (name := who(one.who))
        ],
        "relationships": [
            {"who": name, "name": other, "description": one.description}
            for one in ties
            if (name := who(one.who)) and (other := others(one.name)) and name != other
        ],
    }


def shorten(payload: Mapping[str, Any], lists: Sequence[list[Any]]) -> None:
    """Remove the last entries of these lists, which are parts of the payload, until it can be
    stored as a change."""
    while len(json.dumps(payload, ensure_ascii=False)) > CHANGE_CHAR_LIMIT and any(lists):
        max(lists, key=lambda one: len(json.dumps(one, ensure_ascii=False))).pop()


@dataclass(frozen=True)
class _Stretch:
    """The prompts that a delta tells, from `first` on. `world` is the world after them, `there` has
    the names of everybody who was where the player was at any moment, and `places` where the player
    was after each turn that changed the world."""

    first: int
    world: World
    there: frozenset[str]
    places: Mapping[int, str]

    def place_at(self, numbers: Sequence[int]) -> str:
        """Return where the player was after the first of these turns, or after all if none of them
        is given."""
        if not numbers:
            return self.world.player_location
        before = [place for number, place in self.places.items() if number <= min(numbers)]
        return before[-1] if before else self.places[0]


def _stretch(attempt: Attempt, first: int) -> _Stretch:
    world, there = initial_world(attempt.session), set[str]()
    places = {0: world.player_location}
    changes = changes_that_count(attempt.session, attempt=attempt)
    for change in changes.select_related("attempt__turn"):
        turn = change.attempt.turn
        is_told = turn is not None and turn.number >= first
        if is_told:
            there |= _names_there(world)
        world = apply_change(world, change)
        if is_told:
            there |= _names_there(world)
        if turn is not None:
            places[turn.number] = world.player_location
    return _Stretch(first, world, frozenset(there | _names_there(world)), places)


class _Names:
    """Finds people by the names that agent 8 wrote."""

    def __init__(self, stretch: _Stretch) -> None:
        self._world, self._there = stretch.world, stretch.there

    def of_world(self, name: str) -> str:
        """Return the name as the world has it, or "" for nobody and for somebody hidden, whose name
        the story does not tell yet."""
        everybody = self._world.people.values()
        known = [one for one in everybody if one.is_discovered or one.is_player]
        return self._find(name, known)

    def there(self, name: str) -> str:
        """The same, and "" also for somebody who was never where the player was."""
        return self._find(name, [self._world.people[one] for one in self._there])

    def _find(self, name: str, among: Sequence[Person]) -> str:
        person = self._world.find_called(name, among)
        return person.name if person is not None and person in among else ""


def _names_there(world: World) -> set[str]:
    here = world.at(world.player_location)
    return {one.name for one in here if one.is_discovered or one.is_player}


def _events(attempt: Attempt, stretch: _Stretch, known: _Names) -> Iterator[dict[str, Any]]:
    """Yield what memory tells of the stretch. The player was there, and so was who took part."""
    player = stretch.world.player
    # Another attempt at the last turn may have deltas of its own.
    blocks = MemoryBlock.objects.filter(
        attempt=attempt, type=MemoryBlock.Type.TURN_DELTA, from_prompt_index=stretch.first
    )
    for block in blocks:
        for event in block.json_payload.get(_EVENTS) or []:
            text = " ".join(str(event.get(_EVENT, "")).split())[:LINE_LIMIT]
            named = (known.there(str(one)) for one in event.get(_PARTICIPANTS) or [])
            witnesses = [name for name in (player.name if player else "", *named) if name]
            if text:
                yield {
                    "description": text,
                    "location": stretch.place_at(event.get(_AT) or []),
                    "witnesses": list(dict.fromkeys(witnesses)),
                }


ADDITION = MemoryAddition(Learned, "explorer.learned", REMEMBERED, brings)
