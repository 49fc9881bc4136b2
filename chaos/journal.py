"""What the client was told, and so may rely on."""

from dataclasses import dataclass, field

from bench.session_data import Setup


@dataclass(frozen=True)
class Words:
    """A submission of the GM: what was sent to whom."""

    agent_slot: int | None
    text: str


@dataclass(frozen=True)
class Reply:
    """What the program answered to a submission: the reply's event and its text."""

    prompt_index: int
    event_id: str
    text: str


# A chapter's id and a submission's key.
Key = tuple[str, str]


@dataclass
class Journal:
    """All of it must be in the database, word for word, whatever breaks afterwards."""

    setups: dict[str, Setup] = field(default_factory=dict)
    # Submissions that the client knows to be stored, answered or not.
    kept: dict[Key, Words] = field(default_factory=dict)
    answered: dict[Key, Reply] = field(default_factory=dict)
    # Forks by the chapter that they were made from and the key of the form.
    forks: dict[Key, str] = field(default_factory=dict)
    # Drafts by their id: the chapter and the text.
    drafts: dict[str, tuple[str, str]] = field(default_factory=dict)
    # Submissions that were sent several times, and whose model never failed.
    called_once: set[Key] = field(default_factory=set)
    # How often a turn was made to go by another attempt.
    choices: int = 0


@dataclass(frozen=True)
class Violation:
    """`rule` names the promise that was broken; `chapter` is an id, or empty."""

    rule: str
    chapter: str
    detail: str
