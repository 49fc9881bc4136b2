"""The texts that guide the narrator beside the world, and that can also be changed in play: the
author's note, examples of how people talk, and the lorebook. The rules on the output are in
output_rules."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from explorer.setup_parts import AnyText, Line, Name, Part, Text, none_if_empty
from sessions.language.words import whole_words

# The fields of the setup that can still be changed in play.
OPEN_FIELDS = ("note", "talk", "lorebook", "output_rules")
# The fields among them that change the finished text of a reply.
KEPT_FIELDS = ("output_rules",)
NOTE_LIMIT, TALK_LIMIT = 2_000, 2_000
MOST_TALK, MOST_LORE, MOST_KEYWORDS = 30, 100, 20
# A keyword has at most this many words. In scripts without blanks each character is a word.
MOST_WORDS = 20
# The limits of two numbers of turns: how far before the end the note stands, and how many turns are
# searched for keywords.
MOST_DEPTH, MOST_SCANNED = 100, 50
LEAST_BUDGET, MOST_BUDGET = 50, 10_000

Role = Literal["system", "user", "assistant"]
Depth = Annotated[int, Field(ge=1, le=MOST_SCANNED)]


def _as_line(value: object) -> object:
    """Return a list of keywords as one line, separated by commas."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        value = ", ".join(value)
    return " ".join(value.split()) if isinstance(value, str) else value


def _check_keywords(line: str) -> str:
    keywords = keywords_of(line)
    if len(keywords) > MOST_KEYWORDS:
        raise ValueError(f"at most {MOST_KEYWORDS} keywords are possible, with commas between")
    if any(len(whole_words(one)) > MOST_WORDS for one in keywords):
        raise ValueError(f"a keyword has at most {MOST_WORDS} words; put commas between keywords")
    return line


Keywords = Annotated[Line, BeforeValidator(_as_line), AfterValidator(_check_keywords)]


class AuthorsNote(Part):
    """A text that stands before the last `depth` turns of the history, as a message of `role`."""

    text: Annotated[AnyText, StringConstraints(max_length=NOTE_LIMIT)] = ""
    depth: int = Field(4, ge=0, le=MOST_DEPTH)
    role: Role = "user"


class TalkExample(Part):
    """Lines that show how a person talks. Without a name, they show how everybody talks."""

    name: Name = ""
    text: Annotated[AnyText, StringConstraints(max_length=TALK_LIMIT)] = ""


class LoreEntry(Part):
    """A piece of lore. The narrator is told it always, or when one of the keywords comes up in the
    last turns; if there are secondary keywords, one of them must come up too.

    Keywords are separated by commas. Entries are told in the order of `insertion_order`, the
    highest last. If `scan_depth` is None, the lorebook's number counts.
    """

    name: Name = ""
    content: Text = ""
    keywords: Keywords = ""
    secondary_keywords: Keywords = ""
    constant: bool = False
    scan_depth: Annotated[Depth | None, BeforeValidator(none_if_empty)] = None
    insertion_order: int = Field(100, ge=0, le=1_000)


class Lorebook(Part):
    """The entries, the number of turns that are searched for keywords (the present turn included),
    and the limit of tokens of all entries in a request."""

    scan_depth: Depth = 3
    token_budget: int = Field(1_000, ge=LEAST_BUDGET, le=MOST_BUDGET)
    entries: list[LoreEntry] = Field([], max_length=MOST_LORE)


def keywords_of(line: str) -> list[str]:
    """Return the keywords of a line."""
    return [one for part in line.split(",") if (one := part.strip())]
