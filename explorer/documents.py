"""The world of an exploration, as the API documents it."""

from ninja import Schema
from pydantic import Field

from world.state import Source


class ConditionDocument(Schema):
    """A condition of a person or a place, which lasts until it is over."""

    text: str
    since: int = Field(description="A tick of the clock.")
    made_by: str = Field(description="The id of the change that made it; empty for the beginning.")


class KnownDocument(Schema):
    id: str
    content: str
    acquired_at: int = Field(description="A tick of the clock.")
    source: Source
    source_character: str = Field(description="The name of the person from whom it came, or empty.")
    is_kept: bool = Field(description="Whether the person knew it when the story began.")


class TieDocument(Schema):
    name: str
    description: str


class WorldPersonDocument(Schema):
    name: str
    description: str
    goals: str
    location: str = Field(description="The name of a place; empty for nowhere.")
    is_player: bool
    is_discovered: bool
    encounter_chance: float | None
    aliases: list[str]
    knowledge: list[KnownDocument]
    relationships: list[TieDocument]
    pronouns: str
    conditions: list[ConditionDocument]
    seen_at: str = Field(description="Where the player last saw this person; empty for never.")
    arrived_at: int = Field(description="The tick at which the person came to the present place.")


class WorldPlaceDocument(Schema):
    name: str
    description: str
    unseen_since: int = Field(description="The tick at which the player was last there.")
    unseen_from: str = Field(description="The same in the words of the story.")
    conditions: list[ConditionDocument]
    ways: list[str] = Field(description="The places to which a way is known.")


class HappeningDocument(Schema):
    description: str
    tick: int
    location: str
    witnesses: list[str]


class ThingDocument(Schema):
    """A thing that somebody holds or that lies at a place."""

    name: str
    description: str
    holder: str
    place: str
    state: str
    since: int
    made_by: str


class WorldDocument(Schema):
    tick: int
    narrative_time: str
    player_location: str
    locations: list[WorldPlaceDocument]
    characters: list[WorldPersonDocument]
    events: list[HappeningDocument]
    things: list[ThingDocument]
