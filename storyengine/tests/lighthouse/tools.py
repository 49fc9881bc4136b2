"""The tools of the keepers: they light a lamp, hail somebody, feel the wind and ring the bell."""

from typing import Any

from pydantic import Field

from agents.modes import chance_of, world_of
from agents.prompting.tools import ProposedChange, Tool, ToolArguments, ToolContext, ToolResult
from sessions.models import PERSON, Attempt
from storyengine.tests.lighthouse.state import LIT, RANG, WIND


class Lighting(ToolArguments):
    lamp: str


class Hailing(ToolArguments):
    name: str


class Ringing(ToolArguments):
    strokesOfTheBell: int = Field(ge=1, le=12)  # noqa: N815  (the name that the model is told)


def readable(attempt: Attempt) -> dict[str, Any]:
    return {"light": world_of(attempt), "wind": chance_of(attempt, "wind").randrange(1_000_000)}


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


TOOLS = (
    Tool("light", "Lights a lamp.", Lighting, light, frozenset({LIT})),
    Tool("hail", "Calls somebody ashore.", Hailing, hail, frozenset({PERSON})),
    Tool("feel", "Feels the wind.", ToolArguments, feel, frozenset({WIND})),
    Tool("ringBell", "Rings the bell.", Ringing, ring, frozenset({RANG})),
)
