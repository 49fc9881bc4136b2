"""The fields that the lighthouse adds to Tab 1: rules of the tower, its lamps, and the oil at the
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
