"""Records what the program has told the client, which the client may rely on."""

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
    # How often a turn was made to go by another attempt.
    choices: int = 0


@dataclass(frozen=True)
class Violation:
    """A broken rule with its name; `chapter` is the chapter's id, or ""."""

    rule: str
    chapter: str
    detail: str
