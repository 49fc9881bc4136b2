"""The narrator's tool to note the states of things and the conditions of people and places, for
later turns."""

from typing import Annotated

from pydantic import Field, StringConstraints

from agents.prompting.tools import ProposedChange, Tool, ToolArguments, ToolContext, ToolResult
from explorer.descriptions import things_here, told_thing
from explorer.setup_parts import LINE_LIMIT
from explorer.state import apply_proposed, known_person, known_place, world_in
from sessions.language.text import why_no_name
from world.conditions import BECAME, MOST_CONDITIONS, MOST_THINGS, THING, same_condition
from world.names import normalized
from world.state import Thing, World

Line = Annotated[str, StringConstraints(strip_whitespace=True, max_length=LINE_LIMIT)]


class Note(ToolArguments):
    what: Line = Field(
        "",
        description="The name of a thing, such as The mill key; always the same name.",
    )
    holder: Line = Field("", description="Who has the thing now; You for the player.")
    place: Line = Field(
        "", description="Where the thing lies now, or the place that is in the condition."
    )
    state: Line = Field(
        "",
        description="How the thing is now, such as wedged or lit; empty if it is as before.",
    )
    person: Line = Field("", description="Who is in the condition; You for the player.")
    condition: Line = Field(
        "", description="How the person or the place is, or what the person owes or has promised."
    )
    over: bool = Field(
        False, description="True if the condition has ended, or the thing is no more."
    )


def note(arguments: Note, context: ToolContext) -> ToolResult:
    """Write down what is true of a thing, or in what condition a person or a place is."""
    world = world_in(context)
    if bool(arguments.what) == bool(arguments.condition):
        return ToolResult(
            "Note one thing (what, with holder or place, and state) or one condition (condition, "
            "with person or place). Nothing was changed."
        )
    if arguments.what:
        return _note_thing(arguments, world)
    return _note_condition(arguments, world)


def _note_thing(arguments: Note, world: World) -> ToolResult:
    known = world.find_thing(arguments.what) or _the_only_one_here(arguments.what, world)
    if known is None and arguments.over:
        listed = ", ".join(one.name for one in things_here(world)) or "none"
        return ToolResult(
            f"No thing called {arguments.what} was noted. Those that are noted here: {listed}."
        )
    if known is None and len(world.things) >= MOST_THINGS:
        return ToolResult(
            f"At most {MOST_THINGS} things can be noted. Say of one that it is over first."
        )
    if not normalized(arguments.what):
        return ToolResult("The thing has no name. Nothing was changed.")
    if problem := why_no_name(arguments.what):
        return ToolResult(f"In the name of the thing, {problem}. Nothing was changed.")
    holder = known_person(arguments.holder, world) if arguments.holder else None
    place = known_place(arguments.place, world) if arguments.place else None
    if (arguments.holder and holder is None) or (arguments.place and place is None):
        unknown = arguments.holder if arguments.holder and holder is None else arguments.place
        return ToolResult(
            f"{unknown} is not known. Nothing was changed. A thing has a holder who is known, or "
            f"one of these places: {', '.join(world.places)}. Its state can say more."
        )
    name = known.name if known else arguments.what
    payload = {
        "name": name,
        "holder": holder.name if holder else "",
        "place": "" if holder else (place or ""),
        "state": arguments.state,
        "over": arguments.over,
    }
    if known is None and not (holder or place):
        # If nobody was said to have the thing, it is at the player's place.
        payload["place"] = world.player_location
    change = ProposedChange(THING, payload)
    after = apply_proposed(world, [change]).find_thing(name)
    told = told_thing(after) if after else f"{name} is no more"
    return ToolResult(f"Noted: {told}.", (change,))


def _the_only_one_here(name: str, world: World) -> Thing | None:
    """Return the only thing here whose name has all of these words, such as The mill key for the
    key, so that no thing stands in two places."""
    words = set(normalized(name).split())
    named = [one for one in things_here(world) if words <= set(normalized(one.name).split())]
    return named[0] if words and len(named) == 1 else None


def _note_condition(arguments: Note, world: World) -> ToolResult:
    person = known_person(arguments.person, world) if arguments.person else None
    place = known_place(arguments.place, world) if arguments.place else None
    if person is None and (arguments.person or place is None):
        named = arguments.person or arguments.place
        why = f"{named} is not known." if named else "Name the person or the place."
        return ToolResult(f"{why} Nothing was changed.")
    payload = {"condition": arguments.condition, "over": arguments.over}
    payload |= {"person": person.name} if person else {"place": place}
    conditions = person.conditions if person else world.places[place or ""].conditions
    known = same_condition(arguments.condition, conditions)
    if arguments.over and known is None:
        listed = "; ".join(one.text for one in conditions) or "none"
        return ToolResult(f"No such condition was noted. Those that hold: {listed}.")
    if not arguments.over and known is not None:
        return ToolResult(f"Noted already: {known.text}. Nothing was changed.")
    if not arguments.over and len(conditions) >= MOST_CONDITIONS:
        return ToolResult("Too many conditions hold already. Say of one that it is over first.")
    told = f"{known.text} is over" if arguments.over and known else arguments.condition
    of = person.name if person else place
    return ToolResult(f"Noted for {of}: {told}.", (ProposedChange(BECAME, payload),))


NOTE = Tool(
    "note",
    "Call this when something that will matter changes: who has a thing or where it lies, how it "
    "is, a wound, a promise, a debt, a lock, or that one of these is over.",
    Note,
    note,
    frozenset({THING, BECAME}),
)
