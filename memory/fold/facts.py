"""The facts of memory, as pages and requests tell them."""

from dataclasses import dataclass, field

from memory.fold.records import Mention, Prompts


@dataclass(frozen=True)
class Fact:
    """A fact of memory.

    `text` is one line, and a ruling names this text to withdraw the fact. `aside` is further
    knowledge about the fact. `first` and `latest` are the prompts that named the fact first and
    last. `mention` is the latest entry of memory that states the fact.
    """

    text: str
    first: Prompts
    latest: Prompts
    aside: str = ""
    is_in_lock: bool = False
    mention: Mention | None = field(default=None, compare=False)

    @property
    def place(self) -> str:
        return self.mention.place if self.mention else ""

    @property
    def told(self) -> str:
        """The fact with its aside."""
        return f"{self.text} ({self.aside})" if self.aside else self.text


@dataclass(frozen=True)
class Happening(Fact):
    """An event, or a deed. The `intent` of a deed is not part of the aside, because `doer`, a name
    of the cast if possible, may be the only character who knows it."""

    doer: str = ""
    intent: str = ""
    who: tuple[str, ...] = ()
    is_deed: bool = False


@dataclass(frozen=True)
class Past:
    """A value that no longer holds. `held_at` and `place` say which entry of memory stated it, and
    `mention` is the entry that ended it."""

    text: str
    held_at: Prompts
    place: str
    mention: Mention


@dataclass(frozen=True)
class Whereabouts:
    name: str
    place: str
    first: Prompts
    latest: Prompts

    @property
    def text(self) -> str:
        return f"{self.name}: {self.place}"
