"""The setup of a lighthouse on Tab 1: the tower's rules, its lamps, and its oil at the
beginning."""

from pydantic import BaseModel, ConfigDict, Field

# The size of the tank in litres.
TANK = 20


class Lamp(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = Field("north", min_length=1, max_length=20)
    is_red: bool = False


class Tower(BaseModel):
    model_config = ConfigDict(extra="forbid")
    rules: str = Field("", max_length=200)
    oil: int = Field(5, ge=0, le=TANK)
    lamps: list[Lamp] = [Lamp()]
