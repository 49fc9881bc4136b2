"""The seven character slots: number and colour are fixed, the name is the GM's."""

from collections.abc import Mapping
from dataclasses import dataclass

from sessions.limits import MAX_AGENTS

COLORS = ("red", "orange", "yellow", "green", "blue", "indigo", "violet")
SLOTS = tuple(range(1, MAX_AGENTS + 1))


@dataclass(frozen=True)
class Character:
    """A character slot as a page, a prompt or the transcript shows it."""

    slot: int
    color: str
    name: str


def default_name(slot: int) -> str:
    return f"Agent {COLORS[slot - 1].title()}"


def character(slot: int, names: Mapping[str, str]) -> Character:
    """`names` maps the slot as text (a JSON key) to what the GM wrote; empty means the default."""
    return Character(slot, COLORS[slot - 1], names.get(str(slot)) or default_name(slot))


def next_slot(slot: int, selected: list[int]) -> int:
    """The next higher slot of those selected, wrapping round to the lowest."""
    return min((s for s in selected if s > slot), default=min(selected))
