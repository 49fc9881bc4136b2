"""Records what the program has told the client, which the client may rely on."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from bench.session_data import Setup


@dataclass(frozen=True)
class Words:
    """The words of a submission, the character to whom they were sent, and what was sent beside
    them."""

    agent_slot: int | None
    text: str
    given: dict[str, Any] | None = None


@dataclass(frozen=True)
class Reply:
    """The program's answer to a submission, with the ids of its events and their texts."""

    prompt_index: int
    events: tuple[tuple[str, str], ...]


# A chapter's id and a submission's key.
Key = tuple[str, str]


@dataclass
class Journal:
    """What the client was told. All of it has to stay in the database, word for word."""

    setups: dict[str, Setup] = field(default_factory=dict)
    # The submissions that the client knows to be stored, whether they were answered or not.
    kept: dict[Key, Words] = field(default_factory=dict)
    answered: dict[Key, Reply] = field(default_factory=dict)
    # The ids of forks by the ids of their origins and the keys of their forms.
    forks: dict[Key, str] = field(default_factory=dict)
    # Each draft's chapter and text, by the draft's id.
    drafts: dict[str, tuple[str, str]] = field(default_factory=dict)
    # The submissions that were sent several times without a fault of the model server.
    called_once: set[Key] = field(default_factory=set)
    # How many acts the client knows to be done, by the chapters' ids.
    acts: Counter[str] = field(default_factory=Counter)
    # How often a turn was made to go by another attempt.
    choices: int = 0


@dataclass(frozen=True)
class Violation:
    """A broken rule with its name; `chapter` is the chapter's id, or ""."""

    rule: str
    chapter: str
    detail: str
