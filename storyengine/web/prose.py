"""Reads the signs of Markdown that a model writes in the prose of drafts: headings, and emphasised
words. Everything else of the text has no meaning beyond its words."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_HEADING = re.compile(r"[ \t]*#{1,6}[ \t]+(\S.*)")
# Words between signs of the same number: one for emphasis, two for strong emphasis, three for both.
# A single underscore inside a word or a single star between blanks is no mark. The length is
# limited, so that a row of signs is read in a time that is linear in its length.
_MARKED = re.compile(
    r"(?<![\w*_])(?P<mark>\*{1,3}|_{1,3})(?=[^\s*_])(?P<words>[^*_\n]{1,1000}?)(?<=\S)(?P=mark)"
    r"(?![\w*_])"
)


@dataclass(frozen=True)
class Span:
    """Words of a line that are emphasised in the same way. `marks` is the number of signs around
    them: 0 for none, 1 for emphasis, 2 for strong emphasis, 3 for both."""

    text: str
    marks: int = 0

    @property
    def is_emphasised(self) -> bool:
        return self.marks in (1, 3)

    @property
    def is_strong(self) -> bool:
        return self.marks in (2, 3)


def heading_in(line: str) -> str | None:
    """Return the words of the heading, or None if the line is no heading."""
    heading = _HEADING.fullmatch(line)
    return (heading[1].rstrip(" #") or heading[1]) if heading else None


def spans_of(line: str) -> Iterator[Span]:
    """Yield the words of the line. Only the signs of emphasis are left out."""
    end = 0
    for found in _MARKED.finditer(line):
        if found.start() > end:
            yield Span(line[end : found.start()])
        yield Span(found["words"], len(found["mark"]))
        end = found.end()
    if end < len(line):
        yield Span(line[end:])
