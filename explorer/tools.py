"""The narrator's tools: to go somewhere, to let time pass, to meet somebody, to let somebody come
or go, and to note the states of things and people.

The names and the arguments of the first three tools come from the specification of this way to
play.
"""

import uuid
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from agents.calling.model_access import model_of
from agents.modes.registry import agent_of
from agents.prompting.tools import (
    ProposedChange,
    Question,
    Tool,
    ToolArguments,
    ToolContext,
    ToolResult,
)
from explorer import returning
from explorer.notes import NOTE
from explorer.places import ResolveLocation, question, resolve, why_no_place
from explorer.played_world import WORLD
from explorer.setup import MOST_PEOPLE
from explorer.setup_parts import LINE_LIMIT
from explorer.state import (
    MOVE_TICKS,
    apply_proposed,
    known_person,
    known_place,
    new_changes,
    offered_of,
    public_texts_of,
    world_in,
)
from explorer.unseen import WorkedOut, told_until, worked_out_before
from sessions.chapter.cast import clean_person
from sessions.exceptions import ChapterError
from sessions.limits import (
    AGENT_NAME_CHAR_LIMIT,
    MAX_PEOPLE_IN_PLAY,
    PRONOUNS_CHAR_LIMIT,
    PUBLIC_TEXT_CHAR_LIMIT,
)
from sessions.models import PERSON, Attempt
from sessions.roster import character
from world.changes import KNOWN_AS, MET, MOVED, PLACE, SIMULATED, TIME
from world.state import World

MOST_TICKS = 1_000
# One move takes at most this many people along.
MOST_COMPANIONS = 20

Line = Annotated[str, StringConstraints(strip_whitespace=True, max_length=LINE_LIMIT)]


class MoveToLocation(ToolArguments):
    destination: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LINE_LIMIT)
    ] = Field(description="The place where the player goes, in the story's words.")
    narrativeTime: Line = Field(description="What time it is on arrival, such as Late evening.")  # noqa: N815
    accompaniedBy: list[Line] = Field(  # noqa: N815
        max_length=MOST_COMPANIONS,
        description="The names of the people present who go along; empty if nobody does.",
    )


class AdvanceTime(ToolArguments):
    narrativeTime: Line = Field(description="What time it is now, such as The next morning.")  # noqa: N815
    ticks: int = Field(
        ge=1, le=MOST_TICKS, description="How long it took: 1 for a few words, 5 for a walk."
    )


class DiscoverCharacter(ToolArguments):
    characterName: Annotated[  # noqa: N815
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=AGENT_NAME_CHAR_LIMIT),
    ] = Field(description="The name of whom the player meets, as you know it or a new one.")
    introduction: Annotated[str, StringConstraints(max_length=LINE_LIMIT)] = Field(
        "", description="Who this is, in one sentence that the player could tell at a glance."
    )
    goals: Annotated[str, StringConstraints(max_length=LINE_LIMIT)] = Field(
        "", description="What this person wants."
    )
    pronouns: Annotated[
        str, StringConstraints(strip_whitespace=True, max_length=PRONOUNS_CHAR_LIMIT)
    ] = Field("", description="The pronouns of this person, such as she/her.")


class PersonGoes(ToolArguments):
    name: Line = Field(min_length=1, description="Who comes or leaves; not the player.")
    to: Line = Field(
        min_length=1, description="The place where this person goes; the player's, to come here."
    )


def readable(attempt: Attempt) -> dict[str, Any]:
    """Return the data that the tools may read: the world with the changes of all earlier steps, the
    hidden people who are offered at this turn, the number of the run's changes that the world
    already has, the number of people who can still join the cast, and the simulations that were
    worked out before."""
    world = WORLD.of(attempt)
    is_small = model_of(agent_of(attempt)).is_small
    steps = attempt.changes.filter(run_id=attempt.run_id, step__gt=0)
    # A small model is asked nothing within a turn, so these are not needed for it.
    until, worked_out = ({}, {}) if is_small else _out_of_sight(attempt, attempt.run_id)
    return {
        "world": world,
        "offered": offered_of(attempt, world),
        "applied": steps.count(),
        "is_small": is_small,
        "told_until": until,
        "worked_out": worked_out,
        "cast_room": room_in_cast(attempt),
    }


# All steps of a run share this value. It is cached, because it takes the fold of one world for each
# waiting simulation.
@lru_cache(maxsize=16)
def _out_of_sight(attempt: Attempt, run_id: uuid.UUID) -> tuple[dict[str, int], WorkedOut]:
    return told_until(attempt), worked_out_before(attempt)


def room_in_cast(attempt: Attempt) -> int:
    """Return how many more people can join the chapter's cast in play. Further people are only in
    the world, and not in the cast."""
    numbers = {one["number"] for one in attempt.session.people_in_play()}
    return max(MAX_PEOPLE_IN_PLAY - len(numbers), 0)


def _may_join(context: ToolContext) -> bool:
    """Return whether one more person can join the cast."""
    joined = sum(one.kind == PERSON for one in new_changes(context))
    return joined < int(context.readable["cast_room"])


def before_a_move(arguments: MoveToLocation, context: ToolContext) -> Question | None:
    """Return the question which place the destination means. If the place is clear and the player
    left it long ago, return the question what happened there since."""
    world = world_in(context)
    which = question(arguments.destination, world)
    if which is not None and not context.answers:
        return which
    if len(context.answers) > int(which is not None):
        return None
    place, _ = resolve(arguments.destination, world, _resolved(context))
    one = returning.left_alone(place, context, world)
    return returning.question(one, arguments.narrativeTime, context) if one else None


def _resolved(context: ToolContext) -> ResolveLocation | None:
    """Return the answer to the question which place is meant, or None if no answer came."""
    return next((one for one in context.answers if isinstance(one, ResolveLocation)), None)


def move(arguments: MoveToLocation, context: ToolContext) -> ToolResult:
    world = world_in(context)
    player = world.player
    if player is None:
        return ToolResult("There is no player in this world, so nobody can move.")
    if problem := why_no_place(arguments.destination):
        return ToolResult(problem)
    place, changes = resolve(arguments.destination, world, _resolved(context))
    if not place:
        return ToolResult("This world has too many places already. Go to one of those it has.")
    if place == player.location:
        # The other name of this place is remembered even so.
        here = f"The player is at {place} already. {_who_is_here(world)}"
        return ToolResult(here, changes)
    present = {one.name: one for one in world.present()}
    found = [(name, world.find_called(name, world.present())) for name in arguments.accompaniedBy]
    along = [one.name for _, one in found if one is not None and one.name in present]
    absent = [
        name for name, one in found if one is None or not (one.is_player or one.name in present)
    ]
    moved = {
        "who": list(dict.fromkeys([player.name, *along])),
        "to": place,
        "ticks": MOVE_TICKS,
        "narrative_time": arguments.narrativeTime,
    }
    unseen = returning.left_alone(place, context, world)
    since, lived = (
        returning.lived(unseen, arguments.narrativeTime, context, world) if unseen else ("", ())
    )
    # The changes for the time before the arrival come before the move.
    changes = (*changes, *lived, ProposedChange(MOVED, moved))
    world = apply_proposed(world, changes)
    told = [f"The player is at {place} now.", _who_is_here(world)]
    if absent:
        told.insert(1, f"Not here, so they did not come along: {', '.join(absent)}.")
    told += [since] if since else []
    return ToolResult(" ".join(told), changes)


def advance(arguments: AdvanceTime, context: ToolContext) -> ToolResult:
    payload = {"ticks": arguments.ticks, "narrative_time": arguments.narrativeTime}
    time = arguments.narrativeTime or world_in(context).narrative_time or "Unknown"
    ticks = "1 tick has" if arguments.ticks == 1 else f"{arguments.ticks} ticks have"
    return ToolResult(f"{ticks} passed. It is {time} now.", (ProposedChange(TIME, payload),))


def discover(arguments: DiscoverCharacter, context: ToolContext) -> ToolResult:
    world = world_in(context)
    called = arguments.characterName
    known = world.find_person(called)
    if known is None and (place := world.find_place(called)):
        return ToolResult(f"{place.name} is a place, and nobody of this name is known.")
    # A person whose longer name contains this name is meant, so that nobody gets a double.
    known = known or world.find_called(called)
    if known is None:
        return _introduce(arguments, world, joins=_may_join(context))
    is_here = known.location == world.player_location
    if known.is_player:
        return ToolResult(f"{known.name} is the player, whom nobody has to discover.")
    if known.is_discovered:
        where = "" if is_here else " and is not here now"
        return ToolResult(f"{known.name} is known already{where}. Nothing was changed.")
    if not (is_here and context.readable["offered"].get(known.name, False)):
        # The name that the narrator has used, because the narrator may not know the other names.
        return ToolResult(
            f"{called} is not to be found here now. Go on without this person, and do not "
            "invent another one of this name."
        )
    changes = meeting(world, known.name, joins=_may_join(context))
    return ToolResult(f"The player has discovered {known.name}.", changes)


def meeting(world: World, name: str, *, joins: bool) -> tuple[ProposedChange, ...]:
    """Return the changes that let the player meet somebody of this world who was hidden. The person
    joins the cast if there is room."""
    person = world.people[name]
    met = ProposedChange(MET, {"name": person.name})
    return (ProposedChange(PERSON, public_texts_of(person)), met) if joins else (met,)


def _introduce(arguments: DiscoverCharacter, world: World, *, joins: bool) -> ToolResult:
    """Create a new person at the player's place."""
    if len(world.people) >= MOST_PEOPLE:
        return ToolResult("This world has too many people already. Go on with those it has.")
    public = " ".join(arguments.introduction.split())[:PUBLIC_TEXT_CHAR_LIMIT].strip()
    everybody = [
        character(0, name) for one in world.people.values() for name in (one.name, *one.aliases)
    ]
    try:
        person = clean_person(
            everybody,
            name=arguments.characterName,
            pronouns=arguments.pronouns,
            public_text=public,
        )
    except ChapterError as error:
        return ToolResult(f"Nobody was discovered. {error}")
    met = {
        "name": person["name"],
        "description": arguments.introduction,
        "goals": arguments.goals,
        "pronouns": person["pronouns"],
        "location": world.player_location,
    }
    joining = (ProposedChange(PERSON, person),) if joins else ()
    changes = (*joining, ProposedChange(MET, met))
    return ToolResult(f"The player has discovered {person['name']}.", changes)


def let_go(arguments: PersonGoes, context: ToolContext) -> ToolResult:
    """Let a person who is present leave, or a person who is known come to the player's place."""
    world = world_in(context)
    person = known_person(arguments.name, world)
    if person is None:
        return ToolResult(f"Nobody called {arguments.name} is known. Nothing was changed.")
    if person.is_player:
        return ToolResult("That is the player: call moveToLocation when the player goes.")
    if problem := why_no_place(arguments.to):
        return ToolResult(problem)
    known = known_place(arguments.to, world)
    to, changes = (known, ()) if known else resolve(arguments.to, world, _resolved(context))
    here = world.player_location
    if not to:
        return ToolResult("This world has no room for such a place. Nothing was changed.")
    if person.location == to:
        return ToolResult(f"{person.name} is at {to} already. Nothing was changed.", changes)
    if here not in (person.location, to):
        return ToolResult(
            f"{person.name} is not here, and {to} is not where the player is, so nobody sees it. "
            "Nothing was changed."
        )
    went = {"who": [person.name], "to": to, "ticks": 0, "narrative_time": "", "comes": to == here}
    told = f"{person.name} is here now." if to == here else f"{person.name} has gone to {to}."
    return ToolResult(told, (*changes, ProposedChange(MOVED, went)))


def where_to(arguments: PersonGoes, context: ToolContext) -> Question | None:
    """Return the question which place is meant, unless the place is clear or nobody goes there."""
    world = world_in(context)
    person = known_person(arguments.name, world)
    is_here = person is not None and person.location == world.player_location
    return question(arguments.to, world) if is_here and not context.answers else None


def _who_is_here(world: World) -> str:
    here = ", ".join(one.name for one in world.present()) or "no one else"
    return f"Characters here: {here}."


TOOLS = (
    Tool(
        "moveToLocation",
        "Call this when the player goes to another place.",
        MoveToLocation,
        move,
        frozenset({MOVED, PLACE, KNOWN_AS, SIMULATED}),
        asks=before_a_move,
    ),
    Tool(
        "advanceTime",
        "Call this when much time passes: a long talk, a night, a wait.",
        AdvanceTime,
        advance,
        frozenset({TIME}),
    ),
    Tool(
        "discoverCharacter",
        "Call this before you introduce anybody the player has not met, hidden or new.",
        DiscoverCharacter,
        discover,
        frozenset({PERSON, MET}),
    ),
    Tool(
        "personGoes",
        "Call this when somebody other than the player leaves the place or comes to it, alone.",
        PersonGoes,
        let_go,
        frozenset({MOVED, PLACE, KNOWN_AS}),
        asks=where_to,
    ),
    NOTE,
)
