"""The world of an exploration at its beginning, and after each change."""

from collections.abc import Sequence
from itertools import islice

from agents.prompting.tools import ProposedChange, ToolContext
from explorer.setup import Exploration, PersonSetup
from sessions.language.speaker_marks import holds_mark
from sessions.language.words import beginning_of
from sessions.limits import PUBLIC_TEXT_CHAR_LIMIT
from sessions.models import Attempt, Change
from sessions.play.chance import chance_of
from world import changes
from world.names import normalized
from world.state import Known, Person, Place, World

# The steps of the clock that a user's words take, and the steps that a move takes.
WORDS_TICKS, MOVE_TICKS = 1, 5
# The narrator's request and the player's column have at most this many events, the newest ones.
LAST_HAPPENINGS = 5
# The kind of the event that tells the player's move.
WENT = "explorer.went"
# A text that would have to be shortened to fewer characters is left out, because it would say
# nothing.
_LEAST_SAID = 20
# The words that a model may use for the player, and for the place where the player is.
_THE_PLAYER = frozenset({"you", "player", "me", "myself"})
_HERE = frozenset({"here", "this place"})


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


def _person(one: PersonSetup, location: str) -> Person:
    # A line that was added on Tab 1 and left empty is no fact.
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
    ties = {tie.name: tie.description for tie in one.relationships if tie.name}
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
        ties,
        one.pronouns,
        # The player knows the places of the people who are known from the beginning.
        seen_at=location if one.is_discovered else "",
        tied_at_start=ties,
    )


def apply_change(world: World, change: Change) -> World:
    return changes.apply(world, change.kind, change.payload, ref=str(change.change_id))


def apply_proposed(world: World, proposed: Sequence[ProposedChange]) -> World:
    """Return the world after changes that are not stored yet."""
    for one in proposed:
        world = changes.apply(world, one.kind, one.payload)
    return world


def world_in(context: ToolContext) -> World:
    """Return the world that a tool sees, with the changes that earlier calls of the same step have
    made."""
    world: World = context.readable["world"]
    return apply_proposed(world, new_changes(context))


def new_changes(context: ToolContext) -> Sequence[ProposedChange]:
    """Return the changes that earlier calls of the same step have made."""
    return context.changes[context.readable["applied"] :]


def known_person(name: str, world: World) -> Person | None:
    """Return the person whom the name means, if the player knows this person. The player counts as
    known."""
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
    """Return the known people who are not here, by the place where the player last saw them. The
    people whose place the player does not know come last, under ""."""
    at: dict[str, list[Person]] = {}
    for one in world.elsewhere():
        at.setdefault("" if one.seen_at == world.player_location else one.seen_at, []).append(one)
    lost = at.pop("", [])
    return at | {"": lost} if lost else at


def lately(world: World) -> list[str]:
    """Return the newest events that the player witnessed or was told, the oldest first."""
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
    """Return the events out of the player's sight that the player has learned about since, in the
    order of the events."""
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


def public_texts_of(person: Person) -> dict[str, str]:
    """Return the texts that the cast has of a person. The public text is the first line of the
    description that others see. It is "" if the line would look in requests like words of the user
    or of the program."""
    line = in_short(person.description, PUBLIC_TEXT_CHAR_LIMIT)
    seen = "" if holds_mark(line) else line
    return {"name": person.name, "pronouns": person.pronouns, "public_text": seen}


def in_short(text: str, limit: int) -> str:
    """Return the text as one line of at most this number of characters, or "" if the number is too
    small for any content."""
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
