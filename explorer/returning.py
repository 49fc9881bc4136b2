"""The return to a place that the player has not seen for long. One question to a model within the
move works out what happened there meanwhile."""

from dataclasses import replace
from typing import Any

from pydantic import Field

from agents.prompting.cleaning.declining import is_refusal
from agents.prompting.layers import Piece
from agents.prompting.tools import (
    AnswerTool,
    ProposedChange,
    Question,
    ToolArguments,
    ToolContext,
)
from explorer.out_of_sight import ARRIVAL, PLACE
from explorer.setup_parts import LINE_LIMIT
from explorer.simulation import SUMMARY_AGENT, entry_of, summed_up
from explorer.state import MOVE_TICKS
from explorer.unseen import NOTHING_UNTIL, Unseen, seen_until, unseen_at
from world.changes import SIMULATED
from world.state import World


class Meanwhile(ToolArguments):
    told: str = Field(
        min_length=1,
        max_length=LINE_LIMIT,
        description="The one or two sentences, and nothing else.",
    )


ANSWER = AnswerTool("tellMeanwhile", "Says what happened there meanwhile.", Meanwhile)


def left_alone(place: str, context: ToolContext, world: World) -> Unseen | None:
    """Return the people who were at this place unseen, if they were unseen for long enough when the
    player arrives there by a move. With a small model return nobody, because a small model is asked
    nothing within a turn."""
    if context.readable["is_small"] or place not in world.places or place == world.player_location:
        return None
    arrival = replace(
        seen_until(world, context.readable["told_until"]), tick=world.tick + MOVE_TICKS
    )
    one = unseen_at(arrival, place)
    return one if one is not None and one.ticks > NOTHING_UNTIL else None


def question(one: Unseen, time: str, context: ToolContext) -> Question | None:
    """Return the question what happened at the place, unless the answer was worked out for another
    attempt."""
    if one.key in context.readable["worked_out"]:
        return None
    pieces = {PLACE: [Piece(one.place)], ARRIVAL: [Piece(time)]}
    return Question(SUMMARY_AGENT.name, pieces, ANSWER)


def lived(
    one: Unseen, time: str, context: ToolContext, world: World
) -> tuple[str, tuple[ProposedChange, ...]]:
    """Return the narrator's text about the time since the player left, and the change of the world.
    Without an answer, nothing happened. The text leaves out what a hidden person has lived through,
    because it would name this person."""
    entry: dict[str, Any] | None = context.readable["worked_out"].get(one.key)
    if entry is None:
        said = next((some for some in context.answers if isinstance(some, Meanwhile)), None)
        if said is None or is_refusal(said.told, of_small_model=False):
            return "", ()
        entry = entry_of(one, time) | {"events": [summed_up(said.told, one)]}
    is_told = all(person.is_discovered for person in one.people)
    happened = " ".join(event["description"] for event in entry.get("events", ()))
    lead = "Since you left" if world.places[one.place].unseen_since else "Meanwhile"
    told = f"{lead}: {happened}" if is_told and happened else ""
    return told, (ProposedChange(SIMULATED, {"places": [entry], "skipped": []}),)
