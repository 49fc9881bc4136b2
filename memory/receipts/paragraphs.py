"""Divides a draft into its paragraphs."""

import re
from dataclasses import dataclass
from enum import StrEnum

from sessions.sentences import reads_as_prose
from sessions.words import count_words

_BLANK_LINE = re.compile(r"\n[ \t]*+(?:\n[ \t]*+)+")
_LINE = re.compile(r"\n")
_BREAK = re.compile(r"[ \t]*+(?:[*_#~\u2042\u2013\u2014-][ \t]*+)++")
_HEADING = re.compile(r"#{1,6}[ \t]")
# A line that is at most so long is a heading, unless its marks show that it is prose.
_LONGEST_HEADING = 60
# A block of lines with more words is divided at its line breaks, because some models put no blank
# line between paragraphs.
_LONG_BLOCK = 150


class Kind(StrEnum):
    PROSE = "prose"
    HEADING = "heading"
    BREAK = "break"


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of a draft. `number` counts from 1, also headings and breaks between scenes, and
    `start` is the place of its first character in the draft's text."""

    number: int
    start: int
    text: str
    kind: Kind


def split_paragraphs(text: str) -> list[Paragraph]:
    """Return the paragraphs of the text. Only the space between them is left out."""
    found: list[Paragraph] = []
    for start, block in _parts(text, 0, _BLANK_LINE):
        is_long = "\n" in block and count_words(block) > _LONG_BLOCK
        for at, part in _parts(block, start, _LINE) if is_long else [(start, block)]:
            found.append(Paragraph(len(found) + 1, at, part, _kind_of(part)))
    return found


def _parts(text: str, offset: int, between: re.Pattern[str]) -> list[tuple[int, str]]:
    parts, start = [], 0
    ends = [(match.start(), match.end()) for match in between.finditer(text)]
    for end, following in [*ends, (len(text), len(text))]:
        part = text[start:end]
        if stripped := part.strip():
            parts.append((offset + start + part.index(stripped), stripped))
        start = following
    return parts


def _kind_of(text: str) -> Kind:
    if "\n" in text:
        return Kind.PROSE
    if _BREAK.fullmatch(text):
        return Kind.BREAK
    is_title = len(text) <= _LONGEST_HEADING and not reads_as_prose(text)
    return Kind.HEADING if _HEADING.match(text) or is_title else Kind.PROSE
