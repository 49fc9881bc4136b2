"""Template tags for the parts of an exploration's templates that are no values of the scenario."""

from dataclasses import dataclass
from typing import Any

from django import template

from explorer.ready import ReadyScenario, ready_scenarios
from explorer.view import PlayersView
from sessions.models import Session
from world.state import SOURCES, Source, World

register = template.Library()

# The chances that Tab 1 offers, by the value that is stored; "" stands for none.
_CHANCES = {
    "": "always",
    "0.75": "three turns in four",
    "0.5": "every other turn",
    "0.25": "one turn in four",
    "0.1": "one turn in ten",
    "0.0": "never by chance",
}


_SOURCES: dict[Source, str] = {
    "witnessed": "saw or heard it",
    "told": "was told",
    "inferred": "made it out",
}


@dataclass(frozen=True)
class ScenarioChoices:
    """The choices of the fields on Tab 1 for the present scenario. `someone` is the listed person
    who is the player, or None."""

    someone: dict[str, Any] | None
    place_names: list[str]
    people_names: list[str]
    ready: tuple[ReadyScenario, ...]


@register.simple_tag
def choices_of(setup: dict[str, Any]) -> ScenarioChoices:
    """Return the choices for a setup, which may not fit the present model of setups."""
    people = setup.get("people", [])
    return ScenarioChoices(
        next((one for one in people if one.get("is_player")), None),
        _place_names(setup),
        [name for one in people if (name := one.get("name"))],
        ready_scenarios(),
    )


def _place_names(setup: dict[str, Any]) -> list[str]:
    """Return the places of the list, and then the places that are only named by people or by the
    start."""
    named = [one.get("name", "") for one in setup.get("places", [])]
    named += [one.get("location", "") for one in setup.get("people", [])]
    named.append(setup.get("starting_place", ""))
    return [name for name in dict.fromkeys(named) if name]


@register.simple_tag
def chances_with(chance: float | None) -> list[tuple[str, str]]:
    """Return the values and labels of all chances, with this chance too if it is not among them."""
    value = "" if chance is None else str(float(chance))
    offered = dict(_CHANCES)
    offered.setdefault(value, f"{float(chance or 0):.0%} of the turns")
    return list(offered.items())


@register.simple_tag
def view_of(world: World, chapter: Session) -> PlayersView:
    return PlayersView(world, chapter)


@register.filter
def as_lines(texts: list[str]) -> str:
    """Return the texts as a field of several lines shows them."""
    return "\n".join(texts)


@register.simple_tag
def sources() -> list[tuple[str, str]]:
    """Return the ways to learn a fact, each with its label."""
    return [(one, _SOURCES[one]) for one in SOURCES]


@register.filter
def names_in(world: World) -> list[str]:
    """Return the names of the people whom the player knows, the player included."""
    return [one.name for one in world.people.values() if one.is_discovered or one.is_player]


@register.simple_tag
def finished() -> tuple[ReadyScenario, ...]:
    return ready_scenarios()
