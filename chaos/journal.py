"""Records the facts that the program has told the client. The client may rely on them."""

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


# A submission: the id of its chapter, and its key.
Key = tuple[str, str]


@dataclass
class Journal:
    """The facts that the client was told. All of them must stay in the database, word for word."""

    setups: dict[str, Setup] = field(default_factory=dict)
    # The submissions that the client knows to be stored. Some of them may have no answer.
    kept: dict[Key, Words] = field(default_factory=dict)
    answered: dict[Key, Reply] = field(default_factory=dict)
    # The ids of forks. The key is the id of the origin and the key of the form.
    forks: dict[Key, str] = field(default_factory=dict)
    # The chapter and the text of each draft. The key is the draft's id.
    drafts: dict[str, tuple[str, str]] = field(default_factory=dict)
    # The submissions that were sent several times while the model server had no fault.
    called_once: set[Key] = field(default_factory=set)
    # The number of acts that the client knows to be done. The key is the chapter's id.
    acts: Counter[str] = field(default_factory=Counter)
    # How often another attempt was chosen at a turn.
    choices: int = 0


@dataclass(frozen=True)
class Violation:
    """A broken rule, with its name. `chapter` is the chapter's id, or ""."""

    rule: str
    chapter: str
    detail: str
