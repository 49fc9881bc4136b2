"""The seven slots of characters. Each slot has a fixed number and colour."""

from dataclasses import dataclass

from sessions.limits import MAX_AGENTS

COLORS = ("red", "orange", "yellow", "green", "blue", "indigo", "violet")
SLOTS = tuple(range(1, MAX_AGENTS + 1))


@dataclass(frozen=True)
class Character:
    """A member of the cast in the form that pages, prompts and the transcript use.

    A person without a panel has slot 0 and no colour. Lists of witnesses use the `number`. The
    number of a character is its slot, and the number of a person is above all slots.
    """

    slot: int
    color: str
    name: str
    pronouns: str = ""
    public_text: str = ""
    number: int = 0


def default_name(slot: int) -> str:
    return f"Agent {COLORS[slot - 1].title()}"


def character(number: int, name: str = "", pronouns: str = "", public_text: str = "") -> Character:
    """Return the member of the cast with this number. If the number is a slot, the member is a
    character. Otherwise the member is a person without a panel.

    An empty name is replaced by a default name.
    """
    if number not in SLOTS:
        return Character(0, "", name or "Somebody", pronouns, public_text, number)
    told = name or default_name(number)
    return Character(number, COLORS[number - 1], told, pronouns, public_text, number)


def next_slot(slot: int, selected: list[int]) -> int:
    """Return the next selected slot above `slot`. If there is none, return the lowest selected
    slot."""
    return min((s for s in selected if s > slot), default=min(selected))
