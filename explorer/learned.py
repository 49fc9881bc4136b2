"""The facts that people learn in play, and how their ties change.

Agent 8 is asked for these beside its own keys, so that no further call is needed. Its answer
becomes a late result.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field

from agents.prompting.layers import Piece, Tier
from agents.prompting.memory_additions import MemoryAddition, Told
from agents.prompting.sandwich import Subject
from explorer.descriptions import told_conditions, told_thing
from explorer.setup_parts import LINE_LIMIT
from explorer.stretch import ToldStretch, told_stretch
from memory.models import MemoryBlock
from sessions.language.words import terms_of, whole_words
from sessions.limits import AGENT_NAME_CHAR_LIMIT, CHANGE_CHAR_LIMIT
from sessions.models import Attempt
from world.changes import REMEMBERED
from world.names import normalized
from world.state import Source

# One stretch brings at most this many entries of each kind.
_MOST = 60
# The keys of a block and of an event in it.
_EVENTS, _EVENT, _PARTICIPANTS, _AT = "major_events", "event", "participants", "at"
_LOCATION, _CHANGES = "location_updates", "notable_environment_changes"
# One person learns at most this many facts in a stretch. The request to agent 8 has at most this
# many of the facts that a person knows, the newest ones.
MOST_LESSONS, _MOST_KNOWN = 3, 12
_DENIALS = frozenset({"no", "not", "never", "nobody", "nothing", "none", "nowhere", "t"})
# Two sentences say the same if more than this fraction of their words is the same.
_SAME = 0.6


class Lesson(BaseModel):
    who: str = Field(min_length=1, max_length=AGENT_NAME_CHAR_LIMIT)
    what: str = Field(min_length=1, max_length=LINE_LIMIT)
    source: Source = "witnessed"
    # The alias is needed because the name of the key is a keyword of Python.
    from_whom: str = Field("", alias="from", max_length=AGENT_NAME_CHAR_LIMIT)
    # The numbers of the prompts from which the entry comes.
    at: list[int] = []


class Relationship(BaseModel):
    who: str = Field(min_length=1, max_length=AGENT_NAME_CHAR_LIMIT)
    name: str = Field(min_length=1, max_length=AGENT_NAME_CHAR_LIMIT)
    description: str = Field("", max_length=LINE_LIMIT)


class ThingNow(BaseModel):
    what: str = Field(min_length=1, max_length=AGENT_NAME_CHAR_LIMIT)
    holder: str = Field("", max_length=AGENT_NAME_CHAR_LIMIT)
    place: str = Field("", max_length=AGENT_NAME_CHAR_LIMIT)
    state: str = Field("", max_length=LINE_LIMIT)
    over: bool = False


class ConditionNow(BaseModel):
    person: str = Field("", max_length=AGENT_NAME_CHAR_LIMIT)
    place: str = Field("", max_length=AGENT_NAME_CHAR_LIMIT)
    condition: str = Field(min_length=1, max_length=LINE_LIMIT)
    over: bool = False
    at: list[int] = []


class Learned(BaseModel):
    learned: list[Lesson] = []
    relationships: list[Relationship] = []
    things: list[ThingNow] = []
    conditions: list[ConditionNow] = []


def brings(attempt: Attempt, told: Sequence[Told]) -> dict[str, Any] | None:
    """Return the facts that people who were there have learned, the events that the player saw, and
    the changes of things, people and places."""
    if not told:
        return None
    stretch = told_stretch(attempt, told[0].first)
    fields = [one.fields for one in told]
    ties = [tie for one in fields for tie in one.relationships]
    blocks = _blocks(attempt, stretch)
    payload: dict[str, list[Any]] = {
        "learned": _lessons([lesson for one in fields for lesson in one.learned], stretch),
        "relationships": ties_of(ties, who=stretch.called, others=stretch.known_as),
        "events": [event for block in blocks for event in _events(block, stretch)],
        "things": list(_things([thing for one in fields for thing in one.things], stretch)),
        "conditions": [
            *_conditions([one for each in fields for one in each.conditions], stretch),
            *(one for block in blocks for one in _surroundings(block, stretch)),
        ],
    }
    payload = {name: entries[:_MOST] for name, entries in payload.items()}
    shorten(payload, list(payload.values()))
    return payload if any(payload.values()) else None


def _lessons(lessons: Iterable[Lesson], stretch: ToldStretch) -> list[dict[str, Any]]:
    """Return the lessons of people who were there at the prompts that the lessons name. Each person
    learns only a few facts, and no fact that this person knew already, even in other words."""
    kept: list[dict[str, Any]] = []
    count: Counter[str] = Counter()
    for one in lessons:
        who = stretch.called(one.who, one.at)
        if not who or count[who] == MOST_LESSONS:
            continue
        known = [fact.content for fact in stretch.world.people[who].knowledge]
        known += [entry["content"] for entry in kept if entry["who"] == who]
        if is_known(one.what, known):
            continue
        count[who] += 1
        came_from = stretch.known_as(one.from_whom)
        tick = stretch.moment_at(one.at).tick
        kept.append(
            {"who": who, "content": one.what, "source": one.source, "from": came_from, "tick": tick}
        )
    return kept


def is_known(what: str, known: Iterable[str]) -> bool:
    """Return whether one of these sentences already says the same, perhaps in other words. Two
    sentences say the same if most of their words with content are the same, and if both or neither
    of them deny something."""
    terms, denies = set(terms_of(what)), _denies(what)
    for sentence in known:
        others = set(terms_of(sentence))
        is_alike = len(terms & others) > _SAME * len(terms | others)
        if sentence == what or (is_alike and _denies(sentence) == denies):
            return True
    return False


def _denies(sentence: str) -> bool:
    """Return whether an English sentence says that something is not so. The terms of a search do
    not include words such as "not", because nearly every text has them."""
    return not _DENIALS.isdisjoint(whole_words(sentence))


def ties_of(
    ties: Iterable[Relationship], *, who: Callable[[str], str], others: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Return how the ties between people changed, in the form of the change REMEMBERED.

    `who` and `others` return the name of a person as the world has it, or "" for somebody who was
    not there or cannot be named. Entries of such people are left out.
    """
    return [
        {"who": name, "name": other, "description": one.description}
        for one in ties
        if (name := who(one.who)) and (other := others(one.name)) and name != other
    ]


def _things(told: Iterable[ThingNow], stretch: ToldStretch) -> Iterator[dict[str, Any]]:
    for one in told:
        place = stretch.world.find_place(one.place)
        holder = stretch.known_as(one.holder)
        if normalized(one.what) and (holder or place or one.state or one.over):
            yield {
                "name": one.what,
                "holder": holder,
                "place": place.name if place and not holder else "",
                "state": one.state,
                "over": one.over,
            }


def _conditions(told: Iterable[ConditionNow], stretch: ToldStretch) -> Iterator[dict[str, Any]]:
    for one in told:
        place = stretch.world.find_place(one.place)
        if person := stretch.called(one.person, one.at):
            yield {"person": person, "condition": one.condition, "over": one.over}
        elif place and not one.person:
            yield {"place": place.name, "condition": one.condition, "over": one.over}


def _surroundings(block: MemoryBlock, stretch: ToldStretch) -> Iterator[dict[str, Any]]:
    """Yield the changed surroundings that memory tells, each with the place where the player was
    then."""
    moved = block.json_payload.get(_LOCATION) or {}
    place = stretch.moment_at(moved.get(_AT) or []).place
    for text in moved.get(_CHANGES) or []:
        condition = " ".join(str(text).split())[:LINE_LIMIT]
        if condition and place:
            yield {"place": place, "condition": condition, "over": False}


def shorten(payload: Mapping[str, Any], lists: Sequence[list[Any]]) -> None:
    """Remove the last entries of these lists until the payload, which contains the lists, can be
    stored as a change."""
    while len(json.dumps(payload, ensure_ascii=False)) > CHANGE_CHAR_LIMIT and any(lists):
        max(lists, key=lambda one: len(json.dumps(one, ensure_ascii=False))).pop()


def _blocks(attempt: Attempt, stretch: ToldStretch) -> list[MemoryBlock]:
    # Another attempt at the last turn may have deltas of its own.
    return list(
        MemoryBlock.objects.filter(
            attempt=attempt, type=MemoryBlock.Type.TURN_DELTA, from_prompt_index=stretch.first
        )
    )


def _events(block: MemoryBlock, stretch: ToldStretch) -> Iterator[dict[str, Any]]:
    """Yield the events that memory tells of the stretch. Their witnesses are the player and the
    people who took part."""
    player = stretch.world.player
    for event in block.json_payload.get(_EVENTS) or []:
        text = " ".join(str(event.get(_EVENT, "")).split())[:LINE_LIMIT]
        at = event.get(_AT) or []
        named = (stretch.called(str(one), at) for one in event.get(_PARTICIPANTS) or [])
        witnesses = [name for name in (player.name if player else "", *named) if name]
        if text:
            moment = stretch.moment_at(at)
            yield {
                "description": text,
                "location": moment.place,
                "witnesses": list(dict.fromkeys(witnesses)),
                "tick": moment.tick,
            }


def known_there(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the facts that the people who were there have learned in play, and the noted things
    and conditions, so that agent 8 writes down only new facts. A small model gets none of this.

    The facts that people knew from the beginning are left out, because they may be secrets, and
    everything that agent 8 writes enters memory. Only `is_known` compares the lessons with them.
    """
    if subject.attempt is None or tier == "minimal":
        return []
    stretch = told_stretch(subject.attempt, subject.stretch_starts[-1])
    world = stretch.world
    lines = ["What those who were there have learned already:"]
    for name in sorted(stretch.there()):
        newest = [one.content for one in world.people[name].came_to_know[-_MOST_KNOWN:]]
        lines.append(f"- {name}: {'; '.join(newest) or 'nothing yet'}")
    things = [f"- {told_thing(one)}" for one in world.things.values()]
    people = (world.people[name] for name in sorted(stretch.there()))
    held = [(place.name, place.conditions) for place in world.places.values()]
    held += [(person.name, person.conditions) for person in people]
    conditions = [f"- {name}: {told_conditions(some)}" for name, some in held if some]
    for heading, told in (("Things:", things), ("Conditions that hold:", conditions)):
        lines += [heading, *told] if told else []
    return [Piece("\n".join(lines))]


ADDITION = MemoryAddition(Learned, "explorer.learned", REMEMBERED, brings)
