"""The world as a JSON object, for the API and for the next chapter."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from world.state import Condition, Happening, Known, Person, Place, Thing, World


def write_world(world: World) -> dict[str, Any]:
    """Return the world as a JSON object. People and places are named and have no ids; hidden people
    are included."""
    return {
        "tick": world.tick,
        "narrative_time": world.narrative_time,
        "player_location": world.player_location,
        "locations": [
            {
                "name": one.name,
                "description": one.description,
                "unseen_since": one.unseen_since,
                "unseen_from": one.unseen_from,
                "conditions": _write_conditions(one.conditions),
                "ways": list(one.ways),
            }
            for one in world.places.values()
        ],
        "characters": [_write_person(one) for one in world.people.values()],
        "events": [
            {
                "description": one.description,
                "tick": one.tick,
                "location": one.location,
                "witnesses": list(one.witnesses),
            }
            for one in world.happenings
        ],
        "known_as": dict(world.known_as),
        "things": [asdict(one) for one in world.things.values()],
    }


def read_world(content: dict[str, Any]) -> World:
    """Return the world from an object that `write_world` made. Objects of earlier releases, without
    things, ways and conditions, are read too. Raises KeyError, TypeError or ValueError for any
    other object."""
    places = {one["name"]: _read_place(one) for one in content["locations"]}
    people = {one["name"]: _read_person(one) for one in content["characters"]}
    happenings = tuple(
        Happening(**{**one, "witnesses": tuple(one["witnesses"])}) for one in content["events"]
    )
    return World(
        places,
        people,
        int(content["tick"]),
        content["narrative_time"],
        happenings,
        dict(content["known_as"]),
        {one["name"]: Thing(**one) for one in content.get("things", ())},
    )


def _write_person(one: Person) -> dict[str, Any]:
    return {
        "name": one.name,
        "description": one.description,
        "goals": one.goals,
        "location": one.location,
        "is_player": one.is_player,
        "is_discovered": one.is_discovered,
        "encounter_chance": one.encounter_chance,
        "aliases": list(one.aliases),
        "knowledge": [
            {
                "id": known.id,
                "content": known.content,
                "acquired_at": known.acquired_at,
                "source": known.source,
                "source_character": known.source_character,
                "is_kept": known.is_kept,
            }
            for known in one.knowledge
        ],
        "relationships": [
            {"name": name, "description": text} for name, text in one.relationships.items()
        ],
        "pronouns": one.pronouns,
        "conditions": _write_conditions(one.conditions),
        "seen_at": one.seen_at,
        "arrived_at": one.arrived_at,
        "tied_at_start": dict(one.tied_at_start),
    }


def _read_person(content: dict[str, Any]) -> Person:
    knowledge = tuple(Known(**known) for known in content["knowledge"])
    ties = {tie["name"]: tie["description"] for tie in content["relationships"]}
    read = {"knowledge": knowledge, "relationships": ties, "aliases": tuple(content["aliases"])}
    return Person(**{**content, **read, "conditions": _read_conditions(content)})


def _read_place(content: dict[str, Any]) -> Place:
    ways = tuple(content.get("ways", ()))
    return Place(**{**content, "ways": ways, "conditions": _read_conditions(content)})


def _write_conditions(conditions: Sequence[Condition]) -> list[dict[str, Any]]:
    return [asdict(one) for one in conditions]


def _read_conditions(content: dict[str, Any]) -> tuple[Condition, ...]:
    return tuple(Condition(**one) for one in content.get("conditions", ()))
