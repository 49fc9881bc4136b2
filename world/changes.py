"""The kinds of change of a world of places, and how each of them makes another world.

A payload is a JSON object. Names in it are names of places and people as the world has them. A
change that names somebody or something the world does not have leaves this part out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

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
    """Return the world after this change. `ref` makes the ids of what is learned by it. A kind that
    is not of this module leaves the world as it is."""
    change = _BY_KIND.get(kind)
    return change(world, payload, ref) if change else world


def _place(world: World, payload: Payload, ref: str) -> World:
    """A place comes to be known: `name`, `description`."""
    name = payload["name"]
    if not name or world.find_place(name):
        return world
    place = Place(name, payload.get("description", ""), unseen_since=world.tick)
    return replace(world, places={**world.places, name: place})


def _known_as(world: World, payload: Payload, ref: str) -> World:
    """Another name of a place is remembered: `name` is normalized, and `place` canonical."""
    return replace(world, known_as={**world.known_as, payload["name"]: payload["place"]})


def _moved(world: World, payload: Payload, ref: str) -> World:
    """People go to a place: `who`, `to`, `ticks`, `narrative_time`.

    Whoever goes and whoever is at either end knows of it. The player does not notice somebody who
    is hidden.
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
    moved = {one.name: replace(one, location=to.name) for one in who}
    world = _pass(replace(world, people={**world.people, **moved}), payload)
    if any(one.is_player for one in who):
        # The player was at the places until now, the move included.
        seen = {
            name: replace(world.places[name], unseen_since=world.tick)
            for name in (*origins, to.name)
            if name in world.places
        }
        world = replace(world, places={**world.places, **seen})
    names = _listed([one.name for one in who])
    verb = "go" if len(who) > 1 else "goes"
    return _remember(world, f"{names} {verb} to {to.name}.", to.name, witnesses)


def _time(world: World, payload: Payload, ref: str) -> World:
    """Time passes: `ticks`, `narrative_time`."""
    return _pass(world, payload)


def _met(world: World, payload: Payload, ref: str) -> World:
    """The player meets somebody: `name`, and for a new person `description`, `goals` and
    `location`."""
    known = world.find_person(payload["name"])
    if known is None:
        person = Person(
            payload["name"],
            payload.get("description", ""),
            payload.get("goals", ""),
            payload.get("location", ""),
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
    """Somebody learns something: `who`, `content`, `source`, `from`."""
    return _learn(world, [(ref, payload)])


def _learn(world: World, lessons: Iterable[tuple[str, Payload]]) -> World:
    """Let people learn these things, each with its own `ref`. Nobody learns the same twice.

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
            world.tick,
            source if source in SOURCES else "told",
            payload.get("from", ""),
        )
        knowledge.append(one)
    people = {
        name: replace(world.people[name], knowledge=tuple(knowledge))
        for name, (knowledge, _) in learned.items()
    }
    return replace(world, people={**world.people, **people}) if people else world


def _tied(world: World, payload: Payload, ref: str) -> World:
    """What somebody is to another person: `who`, `name`, `description`. It replaces what was
    before."""
    person = world.find_person(payload["who"])
    if person is None or not payload["name"]:
        return world
    ties = {**person.relationships, payload["name"]: payload["description"]}
    changed = replace(person, relationships=ties)
    return replace(world, people={**world.people, person.name: changed})


def _happened(world: World, payload: Payload, ref: str) -> World:
    """Something happens: `description`, `location`, `witnesses`, and `is_learned` if the witnesses
    know it from now on."""
    return _learn(_happens(world, payload), _seen(world, payload, ref))


def _happens(world: World, payload: Payload) -> World:
    witnesses = _witnesses(world, payload)
    return _remember(world, payload["description"], payload.get("location", ""), witnesses)


def _seen(world: World, payload: Payload, ref: str) -> Iterator[tuple[str, Payload]]:
    """Yield what the witnesses of something learn by it, each with its own `ref`."""
    witnesses = _witnesses(world, payload) if payload.get("is_learned") else []
    for at, name in enumerate(witnesses):
        seen = {"who": name, "content": payload["description"], "source": "witnessed"}
        yield f"{ref}.{at}", seen


def _witnesses(world: World, payload: Payload) -> list[str]:
    found = (world.find_person(name) for name in payload["witnesses"])
    return [one.name for one in found if one is not None]


def _remembered(world: World, payload: Payload, ref: str) -> World:
    """What memory tells of a stretch of play: `events`, `learned` and `relationships`, each as the
    changes of these kinds have them. Everybody in `events` knows of them already."""
    lessons: list[tuple[str, Payload]] = []
    for at, event in enumerate(payload.get("events", ())):
        world = _happens(world, event)
        lessons += _seen(world, event, f"{ref}.e{at}")
    lessons += [(f"{ref}.l{at}", one) for at, one in enumerate(payload.get("learned", ()))]
    world = _learn(world, lessons)
    for tie in payload.get("relationships", ()):
        world = _tied(world, tie, ref)
    return world


def _simulated(world: World, payload: Payload, ref: str) -> World:
    """What happened out of the player's sight was worked out: `places`, each with `place`, `tick`,
    what `remembered` has, and `movements`, each with `who` and `to`.

    Whoever the player has met again since stays where they are.
    """
    for at, one in enumerate(payload["places"]):
        place = world.find_place(one["place"])
        if place is None:
            continue
        if place.unseen_since < one["tick"]:
            changed = replace(place, unseen_since=one["tick"])
            world = replace(world, places={**world.places, place.name: changed})
        world = _remembered(world, one, f"{ref}.{at}")
        for movement in one.get("movements", ()):
            person = world.find_person(movement["who"])
            if person is not None and person.location == place.name != world.player_location:
                world = _moved(world, {"who": [person.name], "to": movement["to"]}, ref)
    return world


def _pass(world: World, payload: Payload) -> World:
    time = payload.get("narrative_time") or world.narrative_time
    return replace(world, tick=world.tick + payload.get("ticks", 0), narrative_time=time)


def _remember(world: World, text: str, place: str, witnesses: Sequence[str]) -> World:
    one = Happening(text, world.tick, place, tuple(dict.fromkeys(witnesses)))
    return replace(world, happenings=(*world.happenings, one))


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
}
CHANGE_KINDS = frozenset(_BY_KIND)
