"""The world of a lighthouse chapter: the lamps that burn, the oil that is left, the wind and the
tides."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.modes.fields import setup_of
from agents.modes.world_rules import Act, HandedOn, WorldRules
from agents.prompting.layers import Piece, Tier
from agents.prompting.sandwich import Subject
from agents.prompting.tools import ToolArguments
from sessions.exceptions import InvalidInput
from sessions.models import Change, Session
from sessions.play.played_world import NewChange
from storyengine.tests.lighthouse.setup import TANK, Tower

LIT, OIL, WIND, TIDE_CAME, RANG, SIGHTED, LEARNED = (
    f"lighthouse.{name}"
    for name in ("lit", "oil", "wind", "tide_came", "rang", "sighted", "learned")
)
CHANGE_KINDS = frozenset({LIT, OIL, WIND, TIDE_CAME, RANG, SIGHTED, LEARNED})


@dataclass(frozen=True)
class Light:
    lit: tuple[str, ...] = ()
    oil: int = 5
    wind: int | None = None
    tides: tuple[int, ...] = ()
    strokes: int = 0
    ships: tuple[str, ...] = ()
    # Who has learned what, in the order in which it came.
    lessons: tuple[tuple[str, str], ...] = ()


def first_light(chapter: Session) -> Light:
    tower, handed_on = setup_of(chapter), chapter.tab1.handed_on
    assert isinstance(tower, Tower)
    lamps, tides = handed_on.get("lit", []), handed_on.get("tides", [])
    lessons = tuple((who, what) for who, what in handed_on.get("lessons", []))
    return Light(oil=tower.oil, lit=tuple(lamps), tides=tuple(tides), lessons=lessons)


def hands_on(light: Light, before: Session, chapter: Session) -> HandedOn:
    """Hand on what is left of the oil, on Tab 1 where the user can change it, and the lamps and the
    tides, and who has learned what. The wind changes overnight."""
    tower = setup_of(before)
    assert isinstance(tower, Tower)
    setup = tower.model_copy(update={"oil": min(light.oil, TANK)})
    world: dict[str, Any] = {"lit": list(light.lit), "tides": list(light.tides)}
    if light.lessons:
        world["lessons"] = [list(one) for one in light.lessons]
    return HandedOn(setup.model_dump(mode="json"), world)


def apply_change(light: Light, change: Change) -> Light:
    payload = change.payload
    if change.kind == LIT:
        return replace(light, lit=(*light.lit, payload["lamp"]))
    if change.kind == OIL:
        return replace(light, oil=light.oil + payload["litres"])
    if change.kind == WIND:
        return replace(light, wind=payload["force"])
    if change.kind == RANG:
        return replace(light, strokes=light.strokes + payload["strokes"])
    if change.kind == SIGHTED:
        return replace(light, ships=(*light.ships, payload["ship"]))
    if change.kind == LEARNED:
        new = ((one["who"], one["what"]) for one in payload["lessons"])
        return replace(light, lessons=(*light.lessons, *new))
    if change.kind == TIDE_CAME:
        return replace(light, tides=(*light.tides, payload["level"]))
    return light


class Refuelling(ToolArguments):
    litres: int


def refuel(arguments: Refuelling, light: Light) -> list[NewChange]:
    if not 0 < light.oil + arguments.litres <= TANK:
        raise InvalidInput(f"The tank holds {TANK} litres. Nothing was changed.")
    return [NewChange(OIL, {"litres": arguments.litres})]


REFUEL = Act("refuel", "Fills the tank.", Refuelling, refuel)
WORLD = WorldRules(first_light, apply_change, CHANGE_KINDS, (REFUEL,), hands_on)


def what_is_here(subject: Subject, tier: Tier) -> Sequence[Piece]:
    """Return the text that shows the world to a model. In an attempt, this world includes the
    changes of the attempt's run."""
    attempt = subject.attempt
    light = WORLD.of(attempt) if attempt else WORLD.now(subject.chapter)
    lamps = ", ".join(light.lit) or "none"
    return [Piece(f"Lamps: {lamps}. Oil: {light.oil}. Wind: {light.wind}. Tides: {light.tides}.")]
