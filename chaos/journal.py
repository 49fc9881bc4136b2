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
    # The submissions that the client knows to be stored. Some of them may have no answer.
    kept: dict[Key, Words] = field(default_factory=dict)
    answered: dict[Key, Reply] = field(default_factory=dict)
    # The ids of forks. The key is the id of the origin and the key of the form.
    forks: dict[Key, str] = field(default_factory=dict)
    # The chapter and the text of each draft. The key is the draft's id.
    drafts: dict[str, tuple[str, str]] = field(default_factory=dict)
    # The submissions that were sent several times while the model server had no fault.
    called_once: set[Key] = field(default_factory=set)
    # How often another attempt was chosen at a turn.
    choices: int = 0


@dataclass(frozen=True)
class Violation:
    """A broken rule, with its name. `chapter` is the chapter's id, or ""."""

    rule: str
    chapter: str
    detail: str
