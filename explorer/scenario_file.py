"""Reads and writes scenario files: JSON objects with the keys of the specification of this way to
play. Only names are required."""

import json
import uuid
from collections.abc import Callable
from typing import Any

from django.db import transaction
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from agents.exceptions import BadSetup
from agents.modes.fields import save_mode_setup
from agents.modes.registry import begin_chapter
from explorer.setup import (
    MOST_ALIASES,
    MOST_DEEDS,
    MOST_FACTS,
    MOST_WAYS,
    Exploration,
    PersonSetup,
    PlaceSetup,
    are_namesakes,
    exploration_of,
)
from explorer.setup_parts import Line, Name, Pronouns, Text, Title
from sessions.chapter.access import get_chapter, lock_chapter
from sessions.chapter.chapters import LOCKED, free_title, is_setup_open
from sessions.exceptions import InvalidInput, TooLarge, WrongState
from sessions.models import Session
from sessions.payloads import MAX_DEPTH, problem_in_words
from world.state import Source

MOST_BYTES = 1_000_000
MOST_IN_FILE = 100
# A file with these keys is recognised as a scenario.
_OF_A_SCENARIO = frozenset({"locations", "characters", "playerStartingLocation"})


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class _Location(_Part):
    name: Name = Field(min_length=1)
    description: Text = ""
    ways: list[Name] = Field([], max_length=MOST_WAYS)


class _Fact(_Part):
    content: Line
    source: Source = "witnessed"

    @model_validator(mode="before")
    @classmethod
    def _read_text(cls, fact: Any) -> Any:
        return {"content": fact} if isinstance(fact, str) else fact


class _Tie(_Part):
    name: Name = Field(min_length=1)
    description: Line = ""


class _Person(_Part):
    name: Name = Field(min_length=1)
    description: Text = ""
    goals: Text = ""
    location: Name = ""
    is_player: bool = False
    is_discovered: bool = True
    encounter_chance: float | None = Field(None, ge=0, le=1)
    knowledge: list[_Fact] = Field([], max_length=MOST_FACTS)
    relationships: list[_Tie] = Field([], max_length=MOST_IN_FILE)
    aliases: list[Name] = Field([], max_length=MOST_ALIASES)
    pronouns: Pronouns = ""


class Scenario(_Part):
    title: Title = ""
    description: Text = ""
    initial_narrative_time: Line = ""
    locations: list[_Location] = Field([], max_length=MOST_IN_FILE)
    characters: list[_Person] = Field([], max_length=MOST_IN_FILE)
    player_starting_location: Name = ""
    opening: Text = ""
    deeds: list[Line] = Field([], max_length=MOST_DEEDS)


@transaction.atomic
def replace_scenario(session_id: uuid.UUID, read: Callable[[Exploration], Exploration]) -> Session:
    """Save the setup that the function returns. The function gets the present setup, and no other
    save comes between.

    Raises WrongState after the lock, and BadSetup if the function raises it.
    """
    lock_chapter(session_id)
    chapter = get_chapter(session_id)
    before = exploration_of(chapter)
    if not is_setup_open(chapter):
        raise WrongState(LOCKED)
    return save_mode_setup(session_id, read(before).model_dump(mode="json"))


def read_scenario(content: dict[str, Any], *, before: Exploration) -> Exploration:
    """Return the setup that a scenario describes. The fields that a scenario does not have are left
    as they are. A value null counts as left out.

    Raises BadSetup with the path of each field that does not fit.
    """
    try:
        read = Scenario.model_validate(_without_nulls(content))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise BadSetup([(one["loc"], problem_in_words(one)) for one in found]) from None
    setup = before.model_copy(update=_as_setup(read))
    if problems := setup.problems():
        raise BadSetup([(_in_file(place, setup), problem) for place, problem in problems])
    if (count := len(setup.named_places())) > MOST_IN_FILE:
        why = (
            f"with those that are only named, these are {count} places; {MOST_IN_FILE} are possible"
        )
        raise BadSetup([(("locations",), why)])
    return setup


def parse_scenario(content: bytes, *, before: Exploration) -> Exploration:
    """Return the setup of a scenario file. Raises TooLarge, and BadSetup for a file that is no
    JSON object."""
    if len(content) > MOST_BYTES:
        raise TooLarge(f"The file is larger than {MOST_BYTES:,} bytes. Nothing was changed.")
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):
        raise BadSetup([((), "the file is no JSON")]) from None
    if not isinstance(read, dict):
        raise BadSetup([((), "the file is no JSON object")])
    return read_scenario(read, before=before)


@transaction.atomic
def begin_from(content: bytes) -> Session | None:
    """Begin an exploration from a scenario file, on Tab 1. Returns None for a file of another kind.
    Raises BadSetup."""
    try:
        read = json.loads(content) if len(content) <= MOST_BYTES else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(read, dict) or not read.keys() & _OF_A_SCENARIO or "format" in read:
        return None
    setup = read_scenario(read, before=Exploration())
    chapter = begin_chapter(setup.title and free_title(setup.title), mode="explorer")
    return save_mode_setup(chapter.pk, setup.model_dump(mode="json"))


def write_scenario(setup: Exploration) -> dict[str, Any]:
    """Return the scenario of this setup, in the form that `read_scenario` reads. Raises
    InvalidInput for a setup that is larger than a file can be."""
    if max(len(setup.named_places()), len(setup.people)) > MOST_IN_FILE:
        raise InvalidInput(
            f"A scenario file has at most {MOST_IN_FILE} places and as many people, and this "
            "chapter has more. Export the chapter itself instead; nothing was changed."
        )
    scenario = {
        "title": setup.title,
        "description": setup.description,
        "initial_narrative_time": setup.narrative_time,
        "locations": [one.model_dump(exclude={"was"}) for one in setup.places],
        "characters": [_person(one) for one in setup.people],
        "player_starting_location": setup.starting_place,
        "opening": setup.opening,
        "deeds": setup.deeds,
    }
    read = Scenario.model_validate(scenario, context={"is_stored": True})
    return read.model_dump(mode="json", by_alias=True)


def _without_nulls(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return the value without the parts that are null. Values that are nested too deeply to be
    stored are left in, and are refused later."""
    if depth and isinstance(value, dict):
        return {
            key: _without_nulls(one, depth - 1) for key, one in value.items() if one is not None
        }
    if depth and isinstance(value, list):
        return [_without_nulls(one, depth - 1) for one in value if one is not None]
    return value


def _as_setup(read: Scenario) -> dict[str, Any]:
    return {
        "title": read.title,
        "description": read.description,
        "narrative_time": read.initial_narrative_time,
        "places": [PlaceSetup(**one.model_dump()) for one in read.locations],
        "people": [PersonSetup(**one.model_dump()) for one in read.characters],
        "starting_place": read.player_starting_location,
        "opening": read.opening,
        "deeds": read.deeds,
    }


def _in_file(place: tuple[str | int, ...], setup: Exploration) -> tuple[str | int, ...]:
    """Return the path of a field in a file, for a field of the setup.

    The user's own person is in no file, so if a person in the file has the same name, the fault is
    reported for the person in the file.
    """
    if place == ("persona", "name"):
        own = setup.persona.name
        named = [at for at, one in enumerate(setup.people) if are_namesakes(one.name, own)]
        return ("characters", named[0], "name") if named else place
    names = {
        "places": "locations",
        "people": "characters",
        "is_player": "isPlayer",
        "starting_place": "playerStartingLocation",
    }
    return tuple(names.get(part, part) if isinstance(part, str) else part for part in place)


def _person(one: PersonSetup) -> dict[str, Any]:
    facts = [
        {"content": fact.content, "source": fact.source} for fact in one.knowledge if fact.content
    ]
    ties = [tie.model_dump() for tie in one.relationships[:MOST_IN_FILE] if tie.name]
    return {**one.model_dump(exclude={"was"}), "knowledge": facts, "relationships": ties}
