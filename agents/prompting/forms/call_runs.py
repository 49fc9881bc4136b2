"""Gathers the text of one possible tool call or several, up to the sign or the tag that closes
it."""

import re
from dataclasses import dataclass, field

from agents.prompting.forms.call_marks import Found
from agents.prompting.forms.call_shapes import Said

# A call in Python, or unreadable text between two marks, has at most this many signs.
LONGEST_CODE = 4_000
_CODE_SIGN = re.compile(r"[()\[\]{}\"']|\\(?:.|\Z)", re.DOTALL)


@dataclass
class Run:
    """The text of one possible call or several, with the marks around it."""

    raw: list[str] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    # The name before the arguments, and the words of the text that are no name if no arguments
    # follow.
    name: str = ""
    loose: list[str] = field(default_factory=list)
    mark: str = ""
    # True behind a mark or in a fence, until it is closed.
    is_within: bool = False
    in_fence: bool = False
    has_mark: bool = False
    is_broken: bool = False
    # The space behind `raw`.
    space: str = ""


@dataclass
class Code:
    """A call in Python, which ends with the bracket that closes it."""

    parts: list[str] = field(default_factory=list)
    length: int = 0
    open_brackets: int = 0
    quote: str = ""
    is_closed: bool = False

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def end_in(self, text: str, at: int, *, is_over: bool) -> int:
        """Return the place behind the next sign that matters, or behind the words before it."""
        room = at + LONGEST_CODE - self.length
        sign = _CODE_SIGN.search(text, at, room)
        if sign is None:
            return min(len(text), room)
        # The sign behind a backslash may not have arrived yet.
        is_cut = sign[0] == "\\" and sign.end() == len(text) and not is_over
        return sign.start() if is_cut else sign.end()

    def take(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text)
        sign = text[-1:]
        if len(text) > 1 and text[-2] == "\\":
            return
        if self.quote:
            self.quote = "" if sign == self.quote else self.quote
        elif sign and sign in "\"'":
            self.quote = sign
        elif sign and sign in "()[]{}":
            self.open_brackets += 1 if sign in "([{" else -1
            self.is_closed = self.open_brackets <= 0


def closing_of(found: Found) -> re.Pattern[str]:
    """Return the pattern of the tag that closes an element or a mark."""
    tag = re.match(r"<[^\w]*(?:DSML[^\w]*)?((?:\w+:)?\w+)", found.text)
    name = re.escape(tag[1]) if tag else "(?:longcat_)?tool_call"
    return re.compile(rf"<[^\w<>]*/[^\w<>]*(?:DSML[^\w<>]*)?{name}[^\w<>]*>")
