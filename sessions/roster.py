"""The cast of a chapter: the seven slots of characters, and the texts of each member."""

from dataclasses import dataclass
from typing import Any

from sessions.limits import (
    AGENT_NAME_CHAR_LIMIT,
    MAX_AGENTS,
    PRONOUNS_CHAR_LIMIT,
    PUBLIC_TEXT_CHAR_LIMIT,
    TAB1_CHAR_LIMIT,
)

COLORS = ("red", "orange", "yellow", "green", "blue", "indigo", "violet")
SLOTS = tuple(range(1, MAX_AGENTS + 1))


@dataclass(frozen=True)
class CastText:
    """A text of a member of the cast. Tab 1, the API, files, starters, pages and requests have a
    field for each text of CAST_TEXTS."""

    # Three names of the text: for its column and in files of chapters; for its fields on Tab 1 and
    # in starters; and for the field of the API, which has the texts by slot.
    name: str
    field_name: str
    api_name: str
    # The words for the text: on pages, and in refusals before "of agent 1".
    label: str
    called: str
    limit: int
    # An example that an empty line on Tab 1 shows, and that clients of the API get.
    hint: str
    # The form of the text in requests, after the earlier texts of the list.
    told: str = " {label}: {text}"
    # Whether only the requests of the member itself have the text. All agents get a text that is
    # not private.
    is_private: bool = False
    # Whether the text is one line. A text that is not private has to be one line.
    is_line: bool = True
    # Whether files and starters may lack the text, because some of them are older than the text.
    may_lack: bool = False

    def as_told(self, text: str) -> str:
        """Return the text as a request tells it, or "" if it is empty."""
        return self.told.format(label=self.label, text=text) if text else ""


# A further text needs an entry here, a column of CastMember, and an attribute of Character unless
# it is private.
CAST_TEXTS = (
    CastText("name", "name", "agent_names", "Name", "The name", AGENT_NAME_CHAR_LIMIT, "Mara"),
    CastText(
        "pronouns",
        "pronouns",
        "agent_pronouns",
        "Pronouns",
        "The pronouns",
        PRONOUNS_CHAR_LIMIT,
        "she/her",
        " ({text})",
    ),
    CastText(
        "public_text",
        "public",
        "agent_public_text",
        "What everybody may know",
        "What everybody knows",
        PUBLIC_TEXT_CHAR_LIMIT,
        "One sentence. All agents read it.",
        ": {text}",
    ),
    CastText(
        "identity_text",
        "identity",
        "agent_identity_text_by_slot",
        "Identity",
        "The identity",
        TAB1_CHAR_LIMIT,
        "A pilot who trusts nobody.",
        "{text}",
        is_private=True,
        is_line=False,
    ),
)
NAME, *BESIDE_NAME = CAST_TEXTS
PUBLIC_TEXTS = tuple(one for one in CAST_TEXTS if not one.is_private)
PRIVATE_TEXTS = tuple(one for one in CAST_TEXTS if one.is_private)


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


def character(number: int, name: str = "", **public: Any) -> Character:
    """Return the member of the cast with this number. If the number is a slot, the member is a
    character. Otherwise the member is a person without a panel.

    An empty name is replaced by a default name. `public` has the other public texts.
    """
    if number not in SLOTS:
        return Character(0, "", name or "Somebody", number=number, **public)
    told = name or default_name(number)
    return Character(number, COLORS[number - 1], told, number=number, **public)


def next_slot(slot: int, selected: list[int]) -> int:
    """Return the next selected slot above `slot`. If there is none, return the lowest selected
    slot."""
    return min((s for s in selected if s > slot), default=min(selected))
