"""The pilot, who knows all ships. A tool of the keepers asks the pilot, before it runs, which ship
it is."""

from pydantic import Field

from agents.prompting.agent import Agent
from agents.prompting.layer_sources import own_pieces, prompt_file
from agents.prompting.layers import Piece
from agents.prompting.sandwich import LayerDeclaration
from agents.prompting.tools import AnswerTool, Question, ToolArguments, ToolContext
from storyengine.tests.lighthouse.state import what_is_here

PILOT = Agent(
    None,
    "lighthouse.pilot",
    "Pilot who knows the ships",
    "gpt-4o",
    output_tokens=300,
    reasoning_tokens=1_000,
    temperature=0.2,
    layers=(
        LayerDeclaration(
            "SYSTEM",
            prompt_file("storyengine.tests.lighthouse.pilot"),
            role="system",
            has_heading=False,
        ),
        LayerDeclaration("WHAT_IS_HERE", what_is_here),
        LayerDeclaration("THE_SHIP", own_pieces("THE_SHIP")),
    ),
    retry_waits=(1, 2, 4),
)


class Lookout(ToolArguments):
    sails: str


class KnownShip(ToolArguments):
    shipName: str = Field(min_length=1)  # noqa: N815  (the name that the model is told)


def asks_for_the_ship(arguments: Lookout, context: ToolContext) -> Question | None:
    """Return the question which ship it is, unless it is too dark to see anything of it."""
    if context.answers or not context.readable["light"].lit:
        return None
    pieces = {"THE_SHIP": [Piece(f"A ship with {arguments.sails} comes in.")]}
    return Question(PILOT.name, pieces, AnswerTool("nameShip", "Names the ship.", KnownShip))
