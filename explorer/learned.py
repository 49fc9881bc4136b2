"""What people learn in play, and what they become to each other.

Agent 8 is asked for it beside its own keys, so that it takes no call of its own. What it tells is a
late result.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from world.state import Source, World

# The most entries of each kind that one stretch brings.
_MOST = 60
# The keys of a block and of an event in it.
_EVENTS, _EVENT, _PARTICIPANTS = "major_events", "event", "participants"


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
    now, there = _stretch(attempt, told[0].first)
    known = _Names(now, there)
    entries = entries_of(
        [lesson for one in told for lesson in one.fields.learned],
        [tie for one in told for tie in one.fields.relationships],
        who=known.there,
        others=known.of_world,
    )
    payload: dict[str, list[Any]] = {
        **{name: some[:_MOST] for name, some in entries.items()},
        "events": list(_events(attempt, told[0].first, known, now))[:_MOST],
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


def _stretch(attempt: Attempt, first: int) -> tuple[World, set[str]]:
    """Return the world after the attempt, and the names of everybody who was where the player was
    at any moment since the turn `first` began."""
    world, there = initial_world(attempt.session), set[str]()
    changes = changes_that_count(attempt.session, attempt=attempt)
    for change in changes.select_related("attempt__turn"):
        is_told = change.attempt.turn is not None and change.attempt.turn.number >= first
        if is_told:
            there |= _names_there(world)
        world = apply_change(world, change)
        if is_told:
            there |= _names_there(world)
    return world, there | _names_there(world)


class _Names:
    """Finds people by the names that agent 8 wrote."""

    def __init__(self, world: World, there: set[str]) -> None:
        self._world, self._there = world, there

    def of_world(self, name: str) -> str:
        """Return the name as the world has it, or "" for nobody and for somebody hidden, whose name
        the story does not tell yet."""
        person = self._world.find_person(name) if name else None
        is_known = person is not None and (person.is_discovered or person.is_player)
        return person.name if person is not None and is_known else ""

    def there(self, name: str) -> str:
        """The same, and "" also for somebody who was never where the player was."""
        found = self.of_world(name)
        return found if found in self._there else ""


def _names_there(world: World) -> set[str]:
    here = world.at(world.player_location)
    return {one.name for one in here if one.is_discovered or one.is_player}


def _events(attempt: Attempt, first: int, known: _Names, now: World) -> Iterator[dict[str, Any]]:
    """Yield what memory tells of the stretch. The player was there, and so was who took part."""
    player = now.player
    # Another attempt at the last turn may have deltas of its own.
    blocks = MemoryBlock.objects.filter(
        attempt=attempt, type=MemoryBlock.Type.TURN_DELTA, from_prompt_index=first
    )
    for block in blocks:
        for event in block.json_payload.get(_EVENTS) or []:
            text = " ".join(str(event.get(_EVENT, "")).split())[:LINE_LIMIT]
            named = (known.there(str(one)) for one in event.get(_PARTICIPANTS) or [])
            witnesses = [name for name in (player.name if player else "", *named) if name]
            if text:
                yield {
                    "description": text,
                    "location": now.player_location,
                    "witnesses": list(dict.fromkeys(witnesses)),
                }


ADDITION = MemoryAddition(Learned, "explorer.learned", REMEMBERED, brings)
