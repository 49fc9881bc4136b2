"""The world of an exploration at its beginning, and what each change makes of it."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from agents.flows.late_results import world_at_end
from agents.mode_declarations import HandedOn
from agents.mode_fields import handed_on_of
from agents.modes import chance_of, world_now, world_of
from agents.prompting.sandwich import Subject
from agents.prompting.tools import ProposedChange, ToolContext
from explorer.setup import Exploration, PersonSetup, PlaceSetup, exploration_of
from sessions.limits import PUBLIC_TEXT_CHAR_LIMIT
from sessions.models import Attempt, Change, Session
from sessions.speaker_marks import holds_mark
from sessions.words import beginning_of
from sessions.world import NewChange
from world import changes
from world.document import read_world, write_world
from world.names import normalized
from world.state import Known, Person, Place, World

# A user's words take this many steps of the clock, and a move takes these.
WORDS_TICKS, MOVE_TICKS = 1, 5
# How much of what happened the next chapter gets: the newest.
HANDED_ON_HAPPENINGS = 200
# How much of what happened the narrator and the player's column are told: the newest.
LAST_HAPPENINGS = 5
# The kind of the event that tells the player's move.
WENT = "explorer.went"
# What is shortened to fewer characters says nothing.
_LEAST_SAID = 20
# The words by which a model names the player, and the place where the player is.
_THE_PLAYER = frozenset({"you", "player", "me", "myself"})
_HERE = frozenset({"here", "this place"})
# The name under which a request keeps its world.
_WORLD = "explorer.world"


def initial_world(chapter: Session) -> World:
    """Return the world that Tab 1 describes, with what the chapter before handed on: the clock,
    what happened, and what the people of the same names know and are to each other."""
    world = world_of_setup(exploration_of(chapter))
    handed_on = handed_on_of(chapter)
    return _go_on_from(read_world(handed_on), world) if handed_on else world


def world_of_setup(setup: Exploration) -> World:
    """Return the world that a scenario describes."""
    described = {one.name: one.description for one in setup.places}
    places = {
        name: Place(name, described.get(name, ""), unseen_from=setup.narrative_time)
        for name in setup.named_places()
    }
    canonical = {normalized(name): name for name in places}
    ways = [(one.name, canonical[normalized(way)]) for one in setup.places for way in one.ways]
    start = setup.first_place

    def at(place: str) -> str:
        return canonical[normalized(place or start)]

    people = {one.name: _person(one, at(one.location)) for one in setup.people}
    if setup.player is None:
        persona = setup.persona
        player = Person(
            persona.name,
            persona.seen_as,
            location=at(""),
            is_player=True,
            pronouns=persona.pronouns,
        )
        people = {player.name: player, **people}
    world = World(places, people, narrative_time=setup.narrative_time)
    for one, other in ways:
        world = changes.with_way(world, one, other)
    return world


def _go_on_from(before: World, world: World) -> World:
    people = dict(world.people)
    for name, one in people.items():
        if earlier := before.people.get(name):
            people[name] = replace(
                one,
                knowledge=(*earlier.knowledge, *one.knowledge),
                relationships={**earlier.relationships, **one.relationships},
                conditions=earlier.conditions,
                seen_at=earlier.seen_at,
                arrived_at=earlier.arrived_at,
            )
    return replace(
        world,
        places={name: _place_from(before, one, world) for name, one in world.places.items()},
        people=people,
        tick=before.tick,
        happenings=before.happenings,
        known_as=before.known_as,
        things=before.things,
    )


def _place_from(before: World, one: Place, world: World) -> Place:
    """Return a place of the new world with what the chapter before knew of it: when the player was
    there last, the conditions that hold, and the ways to places that there still are."""
    earlier = before.places.get(one.name)
    if earlier is None:
        return replace(one, unseen_since=before.tick)
    known = (to for to in earlier.ways if to in world.places and to not in one.ways)
    return replace(
        one,
        unseen_since=earlier.unseen_since,
        unseen_from=earlier.unseen_from,
        conditions=earlier.conditions,
        ways=(*one.ways, *known),
    )


def _person(one: PersonSetup, location: str) -> Person:
    # A line that was added on Tab 1 and left empty is nothing to know.
    knowledge = tuple(
        Known(
            f"start.{one.name}.{at}",
            known.content,
            0,
            known.source,
            known.source_character,
            known.is_kept,
        )
        for at, known in enumerate(one.knowledge)
        if known.content
    )
    return Person(
        one.name,
        one.description,
        one.goals,
        location,
        one.is_player,
        one.is_discovered or one.is_player,
        one.encounter_chance,
        tuple(one.aliases),
        knowledge,
        {tie.name: tie.description for tie in one.relationships if tie.name},
        one.pronouns,
        # The player knows where the people are who are known from the beginning.
        seen_at=location if one.is_discovered else "",
    )


def apply_change(world: World, change: Change) -> World:
    return changes.apply(world, change.kind, change.payload, ref=str(change.change_id))


def apply_proposed(world: World, proposed: Sequence[ProposedChange]) -> World:
    """Return the world after changes that are not stored yet."""
    for one in proposed:
        world = changes.apply(world, one.kind, one.payload)
    return world


def world_in(context: ToolContext) -> World:
    """Return the world that a tool sees, with the changes of the calls before in the same step."""
    world: World = context.readable["world"]
    return apply_proposed(world, new_changes(context))


def new_changes(context: ToolContext) -> Sequence[ProposedChange]:
    """Return the changes of the calls before in the same step."""
    return context.changes[context.readable["applied"] :]


def known_person(name: str, world: World) -> Person | None:
    """Return the person whom the name means and whom the player knows, the player included."""
    if normalized(name) in _THE_PLAYER:
        return world.player
    person = world.find_called(name)
    return person if person and (person.is_discovered or person.is_player) else None


def known_place(name: str, world: World) -> str | None:
    """Return the canonical name of a place that is known, or None."""
    if normalized(name) in _HERE:
        return world.player_location or None
    place = world.find_place(name)
    return place.name if place else None


def last_seen_at(world: World) -> dict[str, list[Person]]:
    """Return the known people who are not here, by the place where the player last saw them. Those
    of whom the player does not know where they are come last, under ""."""
    at: dict[str, list[Person]] = {}
    for one in world.elsewhere():
        at.setdefault("" if one.seen_at == world.player_location else one.seen_at, []).append(one)
    lost = at.pop("", [])
    return at | {"": lost} if lost else at


def lately(world: World) -> list[str]:
    """Return the newest of what happened and the player witnessed or was told, oldest first."""
    player = world.player
    seen = player.name if player else None
    heard = set(heard_of(world))
    known = (
        one.description
        for one in reversed(world.happenings)
        if seen in one.witnesses or one.description in heard
    )
    return list(islice(known, LAST_HAPPENINGS))[::-1]


def heard_of(world: World) -> list[str]:
    """Return what happened out of the player's sight and the player has learned since, in the order
    in which it happened."""
    player = world.player
    if player is None:
        return []
    told = {_plain(one.content) for one in player.knowledge}
    return [
        one.description
        for one in world.happenings
        if player.name not in one.witnesses and _plain(one.description) in told
    ]


def _plain(sentence: str) -> str:
    return sentence.strip().rstrip(".").casefold()


def begins(attempt: Attempt) -> list[NewChange]:
    """Return the time that a turn takes, with or without the user's words."""
    payload = {"ticks": WORDS_TICKS, "narrative_time": ""}
    return [NewChange(changes.TIME, payload, cause="words")]


def world_for(subject: Subject) -> World:
    """Return the world that a request is about: in an attempt, with the changes of its run. It is
    folded once for all layers of the request."""
    world: World | None = subject.worked_out.get(_WORLD)
    if world is None:
        attempt = subject.attempt
        world = world_of(attempt) if attempt else world_now(subject.chapter)
        subject.worked_out[_WORLD] = world
    return world


def public_text_of(person: Person) -> str:
    """Return the first line of what others see of a person, as long as the cast can show it. It is
    "" if it would look in requests as if the user or the program had said it."""
    line = in_short(person.description, PUBLIC_TEXT_CHAR_LIMIT)
    return "" if holds_mark(line) else line


def in_short(text: str, limit: int) -> str:
    """Return the text as one line of at most so many characters, or "" if that is too little to say
    anything."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    return f"{beginning_of(line, limit - 1)}…" if limit >= _LEAST_SAID else ""


def offered_of(attempt: Attempt, world: World) -> dict[str, bool]:
    """Return for each hidden person of the world whether the narrator is offered this person at
    this turn. There is one draw for each person and turn, whatever the attempt."""
    return {
        one.name: _is_offered(attempt, one)
        for one in world.people.values()
        if not (one.is_discovered or one.is_player)
    }


def _is_offered(attempt: Attempt, person: Person) -> bool:
    chance = person.encounter_chance
    if chance is None:
        return True
    return chance_of(attempt, f"encounter {person.name}").random() < chance


def hands_on(before: Session, chapter: Session) -> HandedOn:
    """Hand on the places and the people, on Tab 1 where the user can change them, and the clock,
    what happened, and what the people know and are to each other."""
    world: World = world_at_end(before)
    setup = _as_setup(world, exploration_of(before))
    # Everything that ever happened would become too much for one chapter after the other.
    newest = replace(world, happenings=world.happenings[-HANDED_ON_HAPPENINGS:])
    return HandedOn(setup.model_dump(mode="json"), write_world(newest))


def _as_setup(world: World, setup: Exploration) -> Exploration:
    is_persona = setup.player is None
    people = [one for one in world.people.values() if not (one.is_player and is_persona)]
    now: dict[str, Any] = {
        "places": [
            PlaceSetup(name=one.name, description=one.description) for one in world.places.values()
        ],
        "people": [_as_person_setup(one) for one in people],
        "starting_place": world.player_location,
        "narrative_time": world.narrative_time,
        # The story has opened already.
        "opening": "",
        "deeds": [],
    }
    return setup.model_copy(update=now)


def _as_person_setup(one: Person) -> PersonSetup:
    return PersonSetup(
        name=one.name,
        description=one.description,
        goals=one.goals,
        location=one.location,
        is_player=one.is_player,
        is_discovered=one.is_discovered,
        encounter_chance=one.encounter_chance,
        aliases=list(one.aliases),
    )
