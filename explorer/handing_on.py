"""The world at the beginning of a chapter: the scenario of Tab 1, together with parts of the world
of the chapter before.

The people with their goals, knowledge and ties, and the places, are handed on to Tab 1, where the
user can change them. Everything else is handed on too, but not shown on Tab 1: the clock, past
events, things and conditions.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agents.modes.world_rules import HandedOn
from explorer.setup import (
    MOST_ALIASES,
    MOST_FACTS,
    MOST_WAYS,
    Exploration,
    KnownSetup,
    PersonSetup,
    PlaceSetup,
    TieSetup,
    exploration_of,
)
from explorer.setup_parts import LINE_LIMIT, TEXT_LIMIT
from explorer.state import in_short, world_of_setup
from memory.fold.folding import fold_chapter
from memory.fold.present import present
from sessions.limits import MODE_SETUP_CHAR_LIMIT
from sessions.models import Session
from world.document import read_world, write_world
from world.state import Known, Person, Place, World

# The next chapter gets at most this many events. These are the newest.
HANDED_ON_HAPPENINGS = 200
# Tab 1 gets a setup of at most this many characters, which leaves room for the user's additions.
_MOST_ON_TAB_1 = MODE_SETUP_CHAR_LIMIT * 3 // 4
_NOTHING_KNOWN: dict[str, Any] = {"knowledge": [], "relationships": []}
# The next chapter begins with at most this many open threads. These are the newest.
_MOST_THREADS = 5


def initial_world(chapter: Session) -> World:
    """Return the world that Tab 1 describes, with the parts of the chapter before that go on by
    themselves."""
    setup = exploration_of(chapter)
    world = world_of_setup(setup)
    handed_on = chapter.tab1.handed_on
    return _go_on(_renamed(read_world(handed_on), setup), world, setup) if handed_on else world


def hands_on(world: World, before: Session, chapter: Session) -> HandedOn:
    """Hand on the places, the people and the open threads to Tab 1, and the whole world, from which
    everything else goes on."""
    setup = _as_setup(world, exploration_of(before))
    setup.about = _open_threads(before)
    if len(setup.model_dump_json()) > _MOST_ON_TAB_1:
        # In this case the people's knowledge goes on by itself, and cannot be changed on Tab 1.
        people = [one.model_copy(update=_NOTHING_KNOWN) for one in setup.people]
        setup = setup.model_copy(update={"people": people, "is_next": False})
    # The list of all events would grow from chapter to chapter without end.
    newest = replace(world, happenings=world.happenings[-HANDED_ON_HAPPENINGS:])
    return HandedOn(setup.model_dump(mode="json"), write_world(newest))


def _go_on(before: World, world: World, setup: Exploration) -> World:
    people = dict(world.people)
    listed = {one.name for one in setup.people}
    for name, one in people.items():
        if earlier := before.people.get(name):
            people[name] = replace(
                one,
                conditions=earlier.conditions,
                seen_at=earlier.seen_at,
                arrived_at=earlier.arrived_at,
                **_mind_of(one, earlier, is_listed=setup.is_next and name in listed),
            )
    places = {name: _gone_on(one, before, world, setup) for name, one in world.places.items()}
    return replace(
        world,
        places=places,
        people=people,
        tick=before.tick,
        happenings=before.happenings,
        known_as=before.known_as,
        things=before.things,
    )


def _mind_of(one: Person, earlier: Person, *, is_listed: bool) -> dict[str, Any]:
    """Return the person's knowledge and ties. They come from Tab 1 for a person who is listed
    there, and otherwise from the chapter before."""
    if not is_listed:
        return {
            "knowledge": (*earlier.knowledge, *one.knowledge),
            "relationships": {**earlier.relationships, **one.relationships},
            "tied_at_start": {**earlier.tied_at_start, **one.tied_at_start},
        }
    known = {fact.content: fact for fact in earlier.knowledge}

    def since(fact: Known) -> Known:
        old = known.get(fact.content)
        return replace(fact, id=old.id, acquired_at=old.acquired_at) if old else fact

    return {"knowledge": tuple(map(since, one.knowledge))}


def _gone_on(place: Place, before: World, world: World, setup: Exploration) -> Place:
    """Return a place of the new world with the facts of the chapter before: the time when the
    player was there last, the present conditions, and the ways, unless Tab 1 has all of them."""
    earlier = before.places.get(place.name)
    if earlier is None:
        return replace(place, unseen_since=before.tick)
    known = () if setup.is_next else earlier.ways
    further = (to for to in known if to in world.places and to not in place.ways)
    return replace(
        place,
        unseen_since=earlier.unseen_since,
        unseen_from=earlier.unseen_from,
        conditions=earlier.conditions,
        ways=(*place.ways, *further),
    )


def _renamed(world: World, setup: Exploration) -> World:
    """Return the world of the chapter before with the names that Tab 1 has now."""
    people = {one.was: one.name for one in setup.people if one.was}
    if setup.player is None and world.player is not None:
        people.setdefault(world.player.name, setup.persona.name)
    places = {one.was: one.name for one in setup.places if one.was}

    def who(name: str) -> str:
        return people.get(name, name)

    def where(name: str) -> str:
        return places.get(name, name)

    return replace(
        world,
        places={
            where(name): replace(one, name=where(name), ways=tuple(map(where, one.ways)))
            for name, one in world.places.items()
        },
        people={
            who(name): replace(
                one,
                name=who(name),
                location=where(one.location),
                seen_at=where(one.seen_at),
                knowledge=tuple(
                    replace(fact, source_character=who(fact.source_character))
                    for fact in one.knowledge
                ),
                relationships=_keys_renamed(one.relationships, people),
                tied_at_start=_keys_renamed(one.tied_at_start, people),
            )
            for name, one in world.people.items()
        },
        happenings=tuple(
            replace(one, location=where(one.location), witnesses=tuple(map(who, one.witnesses)))
            for one in world.happenings
        ),
        known_as={name: where(place) for name, place in world.known_as.items()},
        things={
            name: replace(one, holder=who(one.holder), place=where(one.place))
            for name, one in world.things.items()
        },
    )


def _keys_renamed(ties: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    return {names.get(name, name): text for name, text in ties.items()}


def _open_threads(chapter: Session) -> str:
    """Return the threads that memory has as open at the end of the chapter, as one line for
    each."""
    threads = present(fold_chapter(chapter)).open_threads[:_MOST_THREADS]
    return "\n".join(in_short(one.text, LINE_LIMIT) for one in threads)[:TEXT_LIMIT]


def _as_setup(world: World, setup: Exploration) -> Exploration:
    is_persona = setup.player is None
    people = [one for one in world.people.values() if not (one.is_player and is_persona)]
    now: dict[str, Any] = {
        "places": [_as_place_setup(one) for one in world.places.values()],
        "people": [_as_person_setup(one) for one in people],
        "starting_place": world.player_location,
        "narrative_time": world.narrative_time,
        # The story was opened in an earlier chapter.
        "opening": "",
        "deeds": [],
        "is_next": True,
    }
    return setup.model_copy(update=now)


def _as_place_setup(one: Place) -> PlaceSetup:
    return PlaceSetup(
        name=one.name,
        description=one.description,
        ways=list(one.ways[:MOST_WAYS]),
        was=one.name,
    )


def _as_person_setup(one: Person) -> PersonSetup:
    kept = one.kept[-MOST_FACTS:]
    room = MOST_FACTS - len(kept)
    facts = [*kept, *(one.came_to_know[-room:] if room else ())]
    return PersonSetup(
        name=one.name,
        description=one.description,
        goals=one.goals,
        location=one.location,
        is_player=one.is_player,
        is_discovered=one.is_discovered,
        encounter_chance=one.encounter_chance,
        aliases=list(one.aliases[:MOST_ALIASES]),
        pronouns=one.pronouns,
        knowledge=[
            KnownSetup(
                content=in_short(fact.content, LINE_LIMIT),
                source=fact.source,
                source_character=fact.source_character,
                is_kept=fact.is_kept,
            )
            for fact in facts
        ],
        relationships=[
            TieSetup(name=name, description=in_short(one.tie_to(name), LINE_LIMIT))
            for name in one.relationships
        ],
        was=one.name,
    )
