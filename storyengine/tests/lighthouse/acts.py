"""The lighthouse's act, by which the user fills the tank."""

from agents.modes.declaration import Act
from agents.prompting.tools import ToolArguments
from sessions.exceptions import InvalidInput
from sessions.play.played_world import NewChange
from storyengine.tests.lighthouse.setup import TANK
from storyengine.tests.lighthouse.state import OIL, Light


class Refuelling(ToolArguments):
    litres: int


def refuel(arguments: Refuelling, light: Light) -> list[NewChange]:
    if not 0 < light.oil + arguments.litres <= TANK:
        raise InvalidInput(f"The tank holds {TANK} litres. Nothing was changed.")
    return [NewChange(OIL, {"litres": arguments.litres})]


REFUEL = Act("refuel", "Fills the tank.", Refuelling, refuel)
