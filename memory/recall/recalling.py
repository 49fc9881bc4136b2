"""Finds the passages that a question is about, in the record and in the memory of a chapter and of
the chapters before it."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from memory.recall.chapters_before import readers_before
from memory.recall.earlier import find_earlier
from memory.recall.memory_terms import rank_memory
from memory.recall.questions import Question, Reader
from memory.recall.ranking import rank
from memory.recall.record_terms import read_record
from memory.recall.turn_places import read_places
from memory.telling.session_state import ELEMENTS_OF_NOW, StateLine
from sessions.models import Session
from sessions.record.transcript import Entry, chosen_entries

__all__ = ["ELEMENTS_OF_NOW", "Passage", "Reader", "recall"]

# The words before a line of memory, by its element. Lines of other elements need no such words.
_LEADS = {
    "boundary": "boundary",
    "canon": "canon",
    "closed": "closed thread",
    "found": "found",
    "now": "how it stands",
    "open": "open thread",
    "unclear": "unclear",
    "was": "no longer so",
}


@dataclass(frozen=True)
class Passage:
    """A turn that was found, or a line of memory.

    Of a turn, `entries` has as much of its prompt and its replies as the reader witnessed. Of
    memory, it has a `line`. `prompt_index` is the last prompt that the line is about, or 0 for a
    line of the lock. `reader_name` is the name of the reader who is told, or None if everything is
    told. `earlier` is the chapter of the passage, if it is a chapter before the reader's.
    """

    prompt_index: int
    score: float
    entries: tuple[Entry, ...] = ()
    line: StateLine | None = None
    reader_name: str | None = None
    earlier: Session | None = None

    @cached_property
    def text(self) -> str:
        """The words of the passage, behind words that name its source if that is an earlier chapter
        or memory."""
        chapter = f"Chapter “{self.earlier.title}”: " if self.earlier else ""
        memory = f"Memory, {self.line.block.lower()}: " if self.line else ""
        return chapter + memory + self.words

    @cached_property
    def words(self) -> str:
        """The turn as the transcript has it, or the line of memory as people read it."""
        if self.line is None:
            return "\n\n".join(entry.rendered for entry in self.entries if not entry.is_silent)
        line = self.line
        told = line.intended if line.is_more_for(self.reader_name) else line.said
        lead = f"{_LEADS[line.tag]}: " if line.tag in _LEADS else ""
        return lead + told


def recall(reader: Reader, question: str | Question, k: int, *, k_of_now: int = 0) -> list[Passage]:
    """Return the best `k` passages that the question is about, and in addition the best `k_of_now`
    lines of memory that say how things stand. The best passages come first.

    The question consists of words; signs in it have no meaning. A turn is found by its own words,
    and with less weight by the words of the turn before and by its place and time. A line of memory
    is found by its own words. Of passages with equal scores, the earlier one comes first. Attempts
    that are not chosen are not found, nor are facts that the Game Master withdrew from memory.

    In the chapters before, the turns are found that the same people witnessed, and of memory the
    events and deeds.
    """
    asked = question if isinstance(question, Question) else Question(question)
    of_readers = [reader, *readers_before(reader)]
    found = [one for reader in of_readers for one in _find(reader, asked, k)]
    # The sort is stable: a turn comes before memory of it, and lines keep the order of memory.
    ranked = sorted(found, key=lambda one: (-one.score, one.reader.chapter.place, one.number))
    of_now = (one for one in ranked if one.line and one.line.tag in ELEMENTS_OF_NOW)
    always = set(map(id, islice(of_now, k_of_now)))
    return _passages([one for at, one in enumerate(ranked) if at < k or id(one) in always])


@dataclass(frozen=True)
class _Found:
    """A turn with its number, or a line of memory with its last prompt."""

    reader: Reader
    number: int
    score: float
    line: StateLine | None = None


def _find(reader: Reader, asked: Question, k: int) -> Iterator[_Found]:
    """Yield the passages of this reader's chapter that the question is about. Of an earlier
    chapter, only the best `k` turns and the best `k` lines of memory are found."""
    if reader.later_rulings is not None:
        turns, lines = find_earlier(reader, asked, k)
    else:
        record = read_record(reader, asked)
        turns = rank(record.turns, read_places(reader, asked, record))
        lines = rank_memory(reader, asked, record.language)
    for number, score in turns:
        yield _Found(reader, number, score)
    for line, score in lines:
        yield _Found(reader, line.prompt, score, line)


def _passages(best: Sequence[_Found]) -> list[Passage]:
    numbers: dict[uuid.UUID, list[int]] = {}
    for one in best:
        if one.line is None:
            numbers.setdefault(one.reader.chapter.pk, []).append(one.number)
    readers = {one.reader.chapter.pk: one.reader for one in best}
    entries = {key: _read_entries(readers[key], numbers.get(key, [])) for key in readers}
    return [
        Passage(
            one.number,
            one.score,
            () if one.line else tuple(entries[one.reader.chapter.pk].get(one.number, ())),
            one.line,
            one.reader.name,
            None if one.reader.later_rulings is None else one.reader.chapter,
        )
        for one in best
    ]


def _read_entries(reader: Reader, numbers: list[int]) -> dict[int, list[Entry]]:
    found: dict[int, list[Entry]] = {}
    if numbers:
        for entry in chosen_entries(
            reader.chapter,
            perceived=reader.perceives,
            with_thoughts=reader.with_thoughts,
            prompts=numbers,
        ):
            found.setdefault(entry.prompt_index, []).append(entry)
    return found
