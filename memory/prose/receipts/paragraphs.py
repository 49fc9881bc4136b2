"""Divides a draft into its paragraphs."""

import re
from dataclasses import dataclass
from enum import StrEnum

from sessions.language.sentences import reads_as_prose
from sessions.language.words import count_words

_BLANK_LINE = re.compile(r"\n[ \t]*+(?:\n[ \t]*+)+")
_LINE = re.compile(r"\n")
# The signs that stand between scenes: stars, dots, dashes, lines, squares, flowers.
_BREAK_SIGNS = (
    r"*_#~=+\u00a7\u00b7\u2013-\u2015\u2020-\u2022\u203b\u2042\u2219\u22c5\u2500-\u257f\u25a0-\u25ff"
    r"\u2605\u2606\u2721-\u274b\u2766\u2767\u30fb\uff0a\uff1d\uff5e-"
)
_BLANK = r"[ \t\u00a0\u200b-\u200d\u3000]*+"
_BREAK = re.compile(rf"{_BLANK}(?:(?:[{_BREAK_SIGNS}]{_BLANK})++|\u2026(?:[ \t\u3000]+\u2026)+)")
_HEADING = re.compile(r"#{1,6}[ \t]")
# A number alone. It is a heading, whatever sign stands behind the number.
_NUMBER = re.compile(r"(?:\d{1,3}|[IVXLC]{1,7})[.)]?\Z")
# A line with at most this length is a heading, unless its marks show that it is prose.
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
    is_heading = _HEADING.match(text) or _NUMBER.match(text) or is_title
    return Kind.HEADING if is_heading else Kind.PROSE
