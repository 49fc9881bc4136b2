"""The facts that the program has confirmed to its client, and which it therefore must not lose."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from testing.session_data import Setup


@dataclass(frozen=True)
class Words:
    """The words of a submission, the character to whom they were sent, and the data that were sent
    besides the words."""

    agent_slot: int | None
    text: str
    given: dict[str, Any] | None = None


@dataclass(frozen=True)
class Reply:
    """The program's answer to a submission: the number of the prompt, and the id and the text of
    each event."""

    prompt_index: int
    events: tuple[tuple[str, str], ...]


# A submission: the id of its chapter, and its key.
Key = tuple[str, str]


@dataclass
class Journal:
    """The facts that the program has confirmed to the client. Each of them must stay in the
    database, word for word."""

    setups: dict[str, Setup] = field(default_factory=dict)
    # The submissions that the program has stored, as its answers show. Some have no reply yet.
    kept: dict[Key, Words] = field(default_factory=dict)
    answered: dict[Key, Reply] = field(default_factory=dict)
    # Maps (id of the origin, submission key of the form) to the id of the fork.
    forks: dict[Key, str] = field(default_factory=dict)
    # Maps the id of a draft to the id of its chapter and to its text.
    drafts: dict[str, tuple[str, str]] = field(default_factory=dict)
    # The submissions that the client sent several times at once while the model server had no
    # fault. Each of them may call the model only once.
    called_once: set[Key] = field(default_factory=set)
    # For each id of a chapter, the number of acts whose success the program has confirmed.
    acts: Counter[str] = field(default_factory=Counter)
    # How often the client has chosen an attempt that was not chosen before.
    choices: int = 0


@dataclass(frozen=True)
class Violation:
    """A violation: the name of the rule, and what broke it. `chapter` is the chapter's id, or "" if
    it concerns no chapter."""

    rule: str
    chapter: str
    detail: str
