"""What people learn in play, and what they become to each other.

Agent 8 is asked for it beside its own keys, so that it takes no call of its own. What it tells is a
late result.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, Field

from agents.modes import world_after
from agents.prompting.memory_additions import MemoryAddition, Told
from explorer.setup import LINE_LIMIT
from memory.models import MemoryBlock
from sessions.limits import AGENT_NAME_CHAR_LIMIT
from sessions.models import Attempt, Session
from world.changes import REMEMBERED
from world.state import Person, Source, World

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
    first, last = told[0].first, told[0].last
    worlds = [world_after(attempt.session, number) for number in range(first, last + 1)]
    there = {one.name for world in worlds for one in _there(world)}
    now = worlds[-1]
    known = _Names(now, there)
    payload = {
        "learned": [
            {
                "who": name,
                "content": lesson.what,
                "source": lesson.source,
                "from": known.of_world(lesson.from_whom),
            }
            for one in told
            for lesson in one.fields.learned
            if (name := known.there(lesson.who))
        ][:_MOST],
        "relationships": [
            {"who": name, "name": other, "description": tie.description}
            for one in told
            for tie in one.fields.relationships
            if (name := known.there(tie.who))
            and (other := known.of_world(tie.name))
            and name != other
        ][:_MOST],
        "events": list(_events(attempt.session, first, last, known, now))[:_MOST],
    }
    return payload if any(payload.values()) else None


class _Names:
    """Finds people by the names that agent 8 wrote."""

    def __init__(self, world: World, there: set[str]) -> None:
        self._world, self._there = world, there

    def of_world(self, name: str) -> str:
        """Return the name as the world has it, or "" for nobody."""
        person = self._world.find_person(name) if name else None
        return person.name if person else ""

    def there(self, name: str) -> str:
        """The same, and "" also for somebody who was never where the player was."""
        found = self.of_world(name)
        return found if found in self._there else ""


def _there(world: World) -> Iterator[Person]:
    yield from world.present()
    if world.player is not None:
        yield world.player


def _events(
    chapter: Session, first: int, last: int, known: _Names, now: World
) -> Iterator[dict[str, Any]]:
    """Yield what memory tells of the stretch. The player was there, and so was who took part."""
    player = now.player
    blocks = MemoryBlock.objects.filter(
        session=chapter,
        type=MemoryBlock.Type.TURN_DELTA,
        from_prompt_index=first,
        to_prompt_index=last,
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
