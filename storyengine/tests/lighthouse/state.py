"""The world of a lighthouse chapter: the lamps that burn, the oil that is left, the wind and the
tides."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agents.mode_fields import setup_of
from agents.modes import world_now, world_of
from agents.prompting.layers import Piece, Tier
from agents.prompting.sandwich import Subject
from sessions.models import Change, Session
from storyengine.tests.lighthouse.setup import Tower

LIT, OIL, WIND, TIDE_CAME = (f"lighthouse.{name}" for name in ("lit", "oil", "wind", "tide_came"))
CHANGE_KINDS = frozenset({LIT, OIL, WIND, TIDE_CAME})


@dataclass(frozen=True)
class Light:
    lit: tuple[str, ...] = ()
    oil: int = 5
    wind: int | None = None
    tides: tuple[int, ...] = ()


def first_light(chapter: Session) -> Light:
    tower = setup_of(chapter)
    assert isinstance(tower, Tower)
    return Light(oil=tower.oil)


def apply_change(light: Light, change: Change) -> Light:
    payload = change.payload
    if change.kind == LIT:
        return replace(light, lit=(*light.lit, payload["lamp"]))
    if change.kind == OIL:
        return replace(light, oil=light.oil + payload["litres"])
    if change.kind == WIND:
        return replace(light, wind=payload["force"])
    if change.kind == TIDE_CAME:
        return replace(light, tides=(*light.tides, payload["level"]))
    return light


def what_is_here(subject: Subject, tier: Tier) -> Sequence[Piece]:
    """Return the text that shows the world to a model. In an attempt, this world includes the
    changes of the attempt's run."""
    attempt = subject.attempt
    light: Light = world_of(attempt) if attempt else world_now(subject.chapter)
    lamps = ", ".join(light.lit) or "none"
    return [Piece(f"Lamps: {lamps}. Oil: {light.oil}. Wind: {light.wind}. Tides: {light.tides}.")]
