"""The tools of the keepers: they light a lamp, hail somebody, feel the wind, ring the bell, and
look out for ships."""

from typing import Any

from pydantic import Field

from agents.prompting.tools import ProposedChange, Tool, ToolArguments, ToolContext, ToolResult
from sessions.models import PERSON, Attempt
from sessions.play.chance import chance_of
from storyengine.tests.lighthouse.pilot import Lookout, asks_for_the_ship
from storyengine.tests.lighthouse.state import LIT, RANG, SIGHTED, WIND, WORLD


class Lighting(ToolArguments):
    lamp: str


class Hailing(ToolArguments):
    name: str


class Ringing(ToolArguments):
    strokesOfTheBell: int = Field(ge=1, le=12)  # noqa: N815  (the name that the model is told)


def readable(attempt: Attempt) -> dict[str, Any]:
    return {"light": WORLD.of(attempt), "wind": chance_of(attempt, "wind").randrange(1_000_000)}


def light(arguments: Lighting, context: ToolContext) -> ToolResult:
    if arguments.lamp in context.readable["light"].lit:
        return ToolResult(f"The lamp {arguments.lamp} burns already.")
    change = ProposedChange(LIT, {"lamp": arguments.lamp})
    return ToolResult(f"The lamp {arguments.lamp} burns.", (change,))


def hail(arguments: Hailing, context: ToolContext) -> ToolResult:
    person = {"name": arguments.name, "pronouns": "", "public_text": "Came by boat."}
    return ToolResult(f"{arguments.name} lands.", (ProposedChange(PERSON, person),))


def feel(arguments: ToolArguments, context: ToolContext) -> ToolResult:
    force = context.readable["wind"]
    return ToolResult(f"The wind is {force}.", (ProposedChange(WIND, {"force": force}),))


def ring(arguments: Ringing, context: ToolContext) -> ToolResult:
    change = ProposedChange(RANG, {"strokes": arguments.strokesOfTheBell})
    return ToolResult("It is heard on the water.", (change,))


def look_out(arguments: Lookout, context: ToolContext) -> ToolResult:
    known = context.answer.shipName if context.answer else f"a ship with {arguments.sails}"
    change = ProposedChange(SIGHTED, {"ship": known})
    return ToolResult(f"It is {known}.", (change,))


TOOLS = (
    Tool("light", "Lights a lamp.", Lighting, light, frozenset({LIT})),
    Tool("hail", "Calls somebody ashore.", Hailing, hail, frozenset({PERSON})),
    Tool("feel", "Feels the wind.", ToolArguments, feel, frozenset({WIND})),
    Tool("ringBell", "Rings the bell.", Ringing, ring, frozenset({RANG})),
    Tool("lookOut", "Looks out.", Lookout, look_out, frozenset({SIGHTED}), asks_for_the_ship),
)
