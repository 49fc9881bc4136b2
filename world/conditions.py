"""The kinds of change of things and of conditions, and the function for each kind, which returns
the world after the change.

A payload names people and places as the world has them. If a change names a person, a place or a
thing that the world does not have, this part of the change is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from world.names import normalized
from world.state import Condition, Person, Place, Thing, World

THING, BECAME = "world.thing", "world.became"
# A world has at most this many things, and a person or a place at most this many conditions.
# Further ones are left out.
MOST_THINGS, MOST_CONDITIONS = 200, 20
Payload = Mapping[str, Any]


def thing(world: World, payload: Payload, ref: str) -> World:
    """A thing comes into the world, changes hands or changes: `name`, and as far as they are told
    `description`, `holder` or `place`, and `state`. `over` says that the thing is no more."""
    name = " ".join(payload["name"].split())
    known = world.find_thing(name)
    if payload.get("over"):
        if known is None:
            return world
        left = {key: one for key, one in world.things.items() if one is not known}
        return replace(world, things=left)
    if not normalized(name) or (known is None and len(world.things) >= MOST_THINGS):
        return world
    before = known or Thing(name)
    holder, place = _whereabouts(world, payload) or (before.holder, before.place)
    one = Thing(
        before.name,
        payload.get("description") or before.description,
        holder,
        place,
        payload.get("state") or before.state,
        world.tick,
        ref,
    )
    return replace(world, things={**world.things, one.name: one})


def _whereabouts(world: World, payload: Payload) -> tuple[str, str] | None:
    """Return the holder and the place that the payload names, or None if it names neither."""
    if holder := world.find_person(payload.get("holder") or ""):
        return holder.name, ""
    if place := world.find_place(payload.get("place") or ""):
        return "", place.name
    return None


def became(world: World, payload: Payload, ref: str) -> World:
    """Somebody or a place comes to be in a condition: `person` or `place`, and `condition`. `over`
    says that the condition has ended."""
    condition = " ".join(payload["condition"].split())
    of: Person | Place | None = world.find_person(payload.get("person") or "")
    of = of or world.find_place(payload.get("place") or "")
    if of is None or not condition:
        return world
    known = same_condition(condition, of.conditions)
    if payload.get("over"):
        now = tuple(one for one in of.conditions if one is not known)
    elif known is not None or len(of.conditions) >= MOST_CONDITIONS:
        return world
    else:
        now = (*of.conditions, Condition(condition, world.tick, ref))
    if isinstance(of, Person):
        return replace(world, people={**world.people, of.name: replace(of, conditions=now)})
    return replace(world, places={**world.places, of.name: replace(of, conditions=now)})


def same_condition(text: str, conditions: Sequence[Condition]) -> Condition | None:
    """Return the condition that this text means: the condition with the same words. If there is
    none, return the only condition that has all words of the text, or whose words all stand in the
    text."""
    words = set(normalized(text).split())
    exact = [one for one in conditions if set(normalized(one.text).split()) == words]
    parts = [
        one
        for one in conditions
        if words and (words <= (own := set(normalized(one.text).split())) or own <= words)
    ]
    return next((some[0] for some in (exact, parts) if len(some) == 1), None)
