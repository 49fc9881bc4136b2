"""The kinds of change of a world of places, and the function for each kind, which returns the world
after the change.

A payload is a JSON object. Names in it are names of places and people as the world has them. If a
change names a person, a place or a thing that the world does not have, this part of the change is
left out.
"""

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from world.conditions import BECAME, THING, became, thing
from world.state import SOURCES, Happening, Known, Person, Place, World

MOVED, TIME, PLACE, KNOWN_AS, MET, LEARNED, TIED, HAPPENED, SIMULATED, REMEMBERED = (
    f"world.{name}"
    for name in (
        *("moved", "time", "place", "known_as", "met"),
        *("learned", "tied", "happened", "simulated", "remembered"),
    )
)
Payload = Mapping[str, Any]


def apply(world: World, kind: str, payload: Payload, *, ref: str = "") -> World:
    """Return the world after this change. `ref` returns the ids of the facts that are learned by
    the change. A kind that is not of this module leaves the world as it is."""
    change = _BY_KIND.get(kind)
    if change is None:
        return world
    world = change(world, payload, ref)
    return _notice(world) if kind in _CHANGES_WHO_IS_HERE else world


def _notice(world: World) -> World:
    """Let the player see who is here."""
    here = world.player_location
    seen = {one.name: replace(one, seen_at=here) for one in world.present() if one.seen_at != here}
    return replace(world, people={**world.people, **seen}) if seen else world


def _place(world: World, payload: Payload, ref: str) -> World:
    """A place comes to be known: `name`, `description`. A place without a description gets the
    description of a later change."""
    name, description = payload["name"], payload.get("description", "")
    known = world.find_place(name)
    if not name or (known and (known.description or not description)):
        return world
    place = (
        replace(known, description=description)
        if known
        else Place(name, description, unseen_since=world.tick)
    )
    return replace(world, places={**world.places, place.name: place})


def _known_as(world: World, payload: Payload, ref: str) -> World:
    """Another name of a place is remembered: `name` is normalized, and `place` canonical."""
    return replace(world, known_as={**world.known_as, payload["name"]: payload["place"]})


def _moved(world: World, payload: Payload, ref: str) -> World:
    """People go to a place: `who`, `to`, `ticks`, `narrative_time`, and `tick` if it was earlier.

    The people who go, and the people at both places, know of the move. The player does not notice
    somebody who is hidden.
    """
    to = world.find_place(payload["to"])
    if to is None:
        return world
    found = (world.find_person(name) for name in payload["who"])
    who = [one for one in found if one is not None and one.location != to.name]
    if not who:
        return _pass(world, payload)
    origins = {one.location for one in who}
    is_hidden = not all(one.is_discovered or one.is_player for one in who)
    witnesses = [
        one.name
        for place in (*origins, to.name)
        for one in world.at(place)
        if not (is_hidden and one.is_player)
    ]
    # The time of the move itself is over when they arrive.
    arrived = payload.get("tick", world.tick + payload.get("ticks", 0))
    moved = {one.name: replace(one, location=to.name, arrived_at=arrived) for one in who}
    seen_leaving = world.player_location in origins and not is_hidden
    if seen_leaving:
        here = world.player_location
        moved |= {
            one.name: replace(moved[one.name], seen_at=to.name)
            for one in who
            if one.location == here
        }
    world = _pass(replace(world, people={**world.people, **moved}), payload)
    if any(one.is_player for one in who):
        # The player was at the places until now, the move included.
        ends = (*origins, to.name)
        seen = {
            name: replace(
                world.places[name], unseen_since=world.tick, unseen_from=world.narrative_time
            )
            for name in ends
            if name in world.places
        }
        world = replace(world, places={**world.places, **seen})
        player = next(one for one in who if one.is_player)
        world = with_way(world, player.location, to.name)
    names = _listed([one.name for one in who])
    verb = "go" if len(who) > 1 else "goes"
    tick = payload.get("tick", world.tick)
    return _remember(world, f"{names} {verb} to {to.name}.", to.name, witnesses, tick)


def with_way(world: World, one: str, other: str) -> World:
    """Return the world with a known way between these two places."""
    ends = {one: other, other: one}
    if one == other or not ends.keys() <= world.places.keys():
        return world
    joined = {
        name: replace(world.places[name], ways=(*world.places[name].ways, to))
        for name, to in ends.items()
        if to not in world.places[name].ways
    }
    return replace(world, places={**world.places, **joined}) if joined else world


def _time(world: World, payload: Payload, ref: str) -> World:
    """Time passes: `ticks`, `narrative_time`."""
    return _pass(world, payload)


def _met(world: World, payload: Payload, ref: str) -> World:
    """The player meets somebody: `name`, and for a new person `description`, `goals`, `pronouns`
    and `location`."""
    known = world.find_person(payload["name"])
    if known is None:
        person = Person(
            payload["name"],
            payload.get("description", ""),
            payload.get("goals", ""),
            payload.get("location", ""),
            pronouns=payload.get("pronouns", ""),
        )
    elif known.is_discovered:
        return world
    else:
        person = replace(known, is_discovered=True)
    world = replace(world, people={**world.people, person.name: person})
    player = world.player
    if player is None:
        return world
    there = [one.name for one in world.at(person.location) if one.is_discovered]
    text = f"{player.name} meets {person.name}."
    return _remember(world, text, person.location, [player.name, *there])


def _learned(world: World, payload: Payload, ref: str) -> World:
    """Somebody learns a fact: `who`, `content`, `source`, `from`, and `tick` if it was earlier."""
    return _learn(world, [(ref, payload)])


def _learn(world: World, lessons: Iterable[tuple[str, Payload]]) -> World:
    """Let people learn these things, each with its own `ref`. Nobody learns the same fact twice.

    A person may know thousands of things, so all lessons of a person are compared with them at
    once.
    """
    learned: dict[str, tuple[list[Known], set[str]]] = {}
    for ref, payload in lessons:
        person = world.find_person(payload["who"])
        content = payload["content"].strip()
        if person is None or not content:
            continue
        if person.name not in learned:
            contents = {one.content for one in person.knowledge}
            learned[person.name] = list(person.knowledge), contents
        knowledge, contents = learned[person.name]
        if content in contents:
            continue
        contents.add(content)
        source = payload.get("source", "told")
        one = Known(
            f"{ref}.{len(knowledge)}" if ref else str(len(knowledge)),
            content,
            payload.get("tick", world.tick),
            source if source in SOURCES else "told",
            payload.get("from", ""),
        )
        # A lesson that is stored late is sorted by the time when it was learned.
        insort(knowledge, one, key=attrgetter("acquired_at"))
    people = {
        name: replace(world.people[name], knowledge=tuple(knowledge))
        for name, (knowledge, _) in learned.items()
    }
    return replace(world, people={**world.people, **people}) if people else world


def _tied(world: World, payload: Payload, ref: str) -> World:
    """The tie of a person to another person: `who`, `name`, `description`. It replaces the earlier
    description."""
    person = world.find_person(payload["who"])
    if person is None or not payload["name"]:
        return world
    ties = {**person.relationships, payload["name"]: payload["description"]}
    changed = replace(person, relationships=ties)
    return replace(world, people={**world.people, person.name: changed})


def _happened(world: World, payload: Payload, ref: str) -> World:
    """An event happens: `description`, `location`, `witnesses`, `is_learned` if the witnesses know
    of the event from now on, and `tick` if it was earlier."""
    return _learn(_happens(world, payload), _seen(world, payload, ref))


def _happens(world: World, payload: Payload) -> World:
    witnesses = _witnesses(world, payload)
    tick = payload.get("tick", world.tick)
    return _remember(world, payload["description"], payload.get("location", ""), witnesses, tick)


def _seen(world: World, payload: Payload, ref: str) -> Iterator[tuple[str, Payload]]:
    """Yield the lessons of the witnesses of an event, each with its own `ref`."""
    witnesses = _witnesses(world, payload) if payload.get("is_learned") else []
    for at, name in enumerate(witnesses):
        seen = {"who": name, "content": payload["description"], "source": "witnessed"}
        dated = {"tick": payload["tick"]} if "tick" in payload else {}
        yield f"{ref}.{at}", seen | dated


def _witnesses(world: World, payload: Payload) -> list[str]:
    found = (world.find_person(name) for name in payload["witnesses"])
    return [one.name for one in found if one is not None]


def _remembered(world: World, payload: Payload, ref: str) -> World:
    """The facts that memory tells of a stretch of play: `events`, `learned`, `relationships`,
    `things` and `conditions`, each as the changes of these kinds have them. Everybody in `events`
    knows of them already."""
    lessons: list[tuple[str, Payload]] = []
    for at, event in enumerate(payload.get("events", ())):
        world = _happens(world, event)
        lessons += _seen(world, event, f"{ref}.e{at}")
    lessons += [(f"{ref}.l{at}", one) for at, one in enumerate(payload.get("learned", ()))]
    world = _learn(world, lessons)
    for tie in payload.get("relationships", ()):
        world = _tied(world, tie, ref)
    for one in payload.get("things", ()):
        world = thing(world, one, ref)
    for one in payload.get("conditions", ()):
        world = became(world, one, ref)
    return world


def _simulated(world: World, payload: Payload, ref: str) -> World:
    """What happened out of the player's sight was worked out: `places`, each with `place`, the
    `tick` until which it is worked out, `until` as that time in the story's words, the lists of
    `remembered`, and `movements`, each with `who` and `to`.

    A person whom the player has met again since then is not moved.
    """
    for at, one in enumerate(payload["places"]):
        place = world.find_place(one["place"])
        if place is None:
            continue
        if place.unseen_since < one["tick"]:
            until = one.get("until", place.unseen_from)
            changed = replace(place, unseen_since=one["tick"], unseen_from=until)
            world = replace(world, places={**world.places, place.name: changed})
        world = _remembered(world, one, f"{ref}.{at}")
        for movement in one.get("movements", ()):
            person = world.find_person(movement["who"])
            if person is not None and person.location == place.name != world.player_location:
                went = {"who": [person.name], "to": movement["to"], "tick": one["tick"]}
                world = _moved(world, went, ref)
    return world


def _pass(world: World, payload: Payload) -> World:
    time = payload.get("narrative_time") or world.narrative_time
    return replace(world, tick=world.tick + payload.get("ticks", 0), narrative_time=time)


def _remember(
    world: World, text: str, place: str, witnesses: Sequence[str], tick: int | None = None
) -> World:
    when = world.tick if tick is None else tick
    one = Happening(text, when, place, tuple(dict.fromkeys(witnesses)))
    if not world.happenings or world.happenings[-1].tick <= when:
        return replace(world, happenings=(*world.happenings, one))
    happenings = list(world.happenings)
    insort(happenings, one, key=attrgetter("tick"))
    return replace(world, happenings=tuple(happenings))


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


_BY_KIND: Mapping[str, Callable[[World, Payload, str], World]] = {
    MOVED: _moved,
    TIME: _time,
    PLACE: _place,
    KNOWN_AS: _known_as,
    MET: _met,
    LEARNED: _learned,
    TIED: _tied,
    HAPPENED: _happened,
    SIMULATED: _simulated,
    REMEMBERED: _remembered,
    THING: thing,
    BECAME: became,
}
_CHANGES_WHO_IS_HERE = frozenset({MOVED, MET, SIMULATED})
CHANGE_KINDS = frozenset(_BY_KIND)
