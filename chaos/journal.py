"""Records the facts that the program has told the client. The client may rely on them."""

from dataclasses import dataclass, field

from bench.session_data import Setup


@dataclass(frozen=True)
class Words:
    """The words of a submission, and the character to whom they were sent."""

    agent_slot: int | None
    text: str


@dataclass(frozen=True)
class Reply:
    """The program's answer to a submission, with the reply's event and text."""

    prompt_index: int
    event_id: str
    text: str


# A submission: the id of its chapter, and its key.
Key = tuple[str, str]


@dataclass
class Journal:
    """The facts that the client was told. All of them must stay in the database, word for word."""

    setups: dict[str, Setup] = field(default_factory=dict)
    # The submissions of which the client knows that the program has stored them. Some have no
    # answer yet.
    kept: dict[Key, Words] = field(default_factory=dict)
    answered: dict[Key, Reply] = field(default_factory=dict)
    # Maps the id of the origin and the key of the form to the id of the fork.
    forks: dict[Key, str] = field(default_factory=dict)
    # Maps the id of a draft to the id of its chapter and to its text.
    drafts: dict[str, tuple[str, str]] = field(default_factory=dict)
    # The submissions that were sent several times while the model server had no fault.
    called_once: set[Key] = field(default_factory=set)
    # How often another attempt was chosen at a turn.
    choices: int = 0


@dataclass(frozen=True)
class Violation:
    """A violation: the name of the rule, and what broke it. `chapter` is the chapter's id, or "" if
    it concerns no chapter."""

    rule: str
    chapter: str
    detail: str
