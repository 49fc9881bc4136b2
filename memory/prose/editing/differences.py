"""Compares two texts of a chapter, paragraph by paragraph and then word by word."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from memory.models import NarrativeDraft
from memory.prose.editing.aligning import Pair, align, stretches_of
from memory.prose.editing.lengths import check_length
from memory.prose.receipts.paragraphs import split_paragraphs
from sessions.language.words import UNSPACED

# Words are compared for at most this many seconds. The words that could not be compared by then
# count as replaced.
_SECONDS = 1.0
# A word, space, or a single other character. A character of a script without blanks between words
# is a word.
_TOKEN = re.compile(
    rf"[{UNSPACED}]|[^\W{UNSPACED}]+(?:['\u2019][^\W{UNSPACED}]+)*|\s+|.",
)


class Change(StrEnum):
    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"


@dataclass(frozen=True)
class Part:
    """Words that both texts have, or words that only one text has."""

    change: Change
    text: str


@dataclass(frozen=True)
class Row:
    """A paragraph of the older text beside its new form in the newer text. `old` and `new` are the
    numbers of the paragraphs, the first being 1. A number is None if the text has no such
    paragraph."""

    old: int | None
    new: int | None
    parts: tuple[Part, ...]

    @property
    def is_same(self) -> bool:
        return all(part.change == Change.SAME for part in self.parts)

    @property
    def old_parts(self) -> list[Part]:
        return [part for part in self.parts if part.change != Change.ADDED]

    @property
    def new_parts(self) -> list[Part]:
        return [part for part in self.parts if part.change != Change.REMOVED]


def compare_drafts(old: NarrativeDraft, new: NarrativeDraft) -> list[Row]:
    """Return the paragraphs of both drafts in order. Raises TooLong."""
    for draft in (old, new):
        check_length(draft)
    return compare(old.chapter_text, new.chapter_text)


def compare(old: str, new: str) -> list[Row]:
    """Return the paragraphs of both texts in order. The space between paragraphs is not
    compared."""
    olds = [one.text for one in split_paragraphs(old)]
    news = [one.text for one in split_paragraphs(new)]
    deadline = time.time() + 2 * _SECONDS
    pairs = align(olds, news, seconds=_SECONDS)
    return [_row(pair, olds, news, deadline) for pair in pairs]


def _row(pair: Pair, olds: Sequence[str], news: Sequence[str], deadline: float) -> Row:
    old = None if pair.old is None else olds[pair.old]
    new = None if pair.new is None else news[pair.new]
    if old is not None and new is not None:
        parts = (Part(Change.SAME, new),) if pair.is_same else _words(old, new, deadline)
    else:
        kind = Change.REMOVED if new is None else Change.ADDED
        parts = (Part(kind, old or new or ""),)
    return Row(_number(pair.old), _number(pair.new), parts)


def _words(old: str, new: str, deadline: float) -> tuple[Part, ...]:
    olds, news = _TOKEN.findall(old), _TOKEN.findall(new)
    parts: list[Part] = []
    for one in stretches_of(olds, news, deadline=deadline, tidies=True):
        if one.is_same:
            parts.append(Part(Change.SAME, "".join(olds[one.start : one.end])))
            continue
        if removed := "".join(olds[one.start : one.end]):
            parts.append(Part(Change.REMOVED, removed))
        if added := "".join(news[one.new_start : one.new_end]):
            parts.append(Part(Change.ADDED, added))
    return tuple(parts)


def _number(place: int | None) -> int | None:
    return None if place is None else place + 1
