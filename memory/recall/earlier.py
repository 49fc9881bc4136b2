"""Finds the passages of an earlier chapter that a question is about.

Of its memory, only events and deeds are found. The facts that held at the end of the chapter were
handed on to the next chapter, and may have changed since then.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime

from memory.blocks.stretches import Audience
from memory.fold.folding import block_of, fold, fold_chapter, merge
from memory.keeping import KeptRecent
from memory.recall.memory_terms import LineTerms
from memory.recall.questions import Question, Reader
from memory.recall.ranking import rank_words
from memory.recall.record_terms import read_record
from memory.recall.turn_places import read_places
from memory.recall.word_scores import Ranked, WordScores
from memory.telling.session_state import ELEMENTS_OF_NOW, StateLine, memory_lines


@dataclass(frozen=True)
class _State:
    """The state of a chapter: the time of its last change, and the rulings of later chapters."""

    changed_at: datetime
    later_rulings: tuple[uuid.UUID, ...]


@dataclass(frozen=True)
class _Earlier:
    """The turns and lines of memory that a reader may find in a chapter in this state."""

    state: _State
    turns: WordScores
    terms: LineTerms
    lines: WordScores


# The cache for each chapter, its reader, and whether thoughts are found. The limit of the cache is
# a number of scores. Each score takes eight or twelve bytes.
_Key = tuple[uuid.UUID, Audience | None, str | None, bool]
_kept: KeptRecent[_Key, _Earlier] = KeptRecent(3_000_000)


def find_earlier(
    reader: Reader, asked: Question, k: int
) -> tuple[list[tuple[int, float]], list[tuple[StateLine, float]]]:
    """Return the best `k` turns and the best `k` lines of memory, each with its score."""
    chapter = reader.chapter
    rulings = tuple(one.pk for one in reader.later_rulings or ())
    state = _State(chapter.updated_at, rulings)
    whose = reader.readers if chapter.differs_by_reader else None
    key = (chapter.pk, whose, reader.name, reader.with_thoughts)
    earlier = _kept.get(key)
    if earlier is None or earlier.state != state:
        earlier = _read(reader, state)
    terms = earlier.terms
    turns = earlier.turns.best(asked, k, lambda missing: _rank_turns(reader, missing))
    lines = earlier.lines.best(asked, k, lambda missing: _rank_lines(terms, missing, reader.name))
    _kept.set(key, earlier, size=earlier.turns.size + earlier.lines.size)
    return turns, [(terms.lines[at], score) for at, score in lines]


def _read(reader: Reader, state: _State) -> _Earlier:
    record = read_record(reader, Question(""))
    folded = fold_chapter(reader.chapter, readers=reader.readers)
    if reader.later_rulings:
        folded = merge(folded, fold(map(block_of, reader.later_rulings)))
    told = memory_lines(folded, reader.chapter.characters)
    happened = (line for line in told if line.prompt and line.tag not in ELEMENTS_OF_NOW)
    terms = LineTerms(happened, record.language)
    return _Earlier(
        state,
        WordScores(sorted(record.turns.lengths), sorted(record.languages)),
        terms,
        WordScores(range(len(terms.lines)), [record.language]),
    )


def _rank_turns(reader: Reader, asked: Question) -> Ranked:
    record = read_record(reader, asked)
    return rank_words(record.turns, read_places(reader, asked, record))


def _rank_lines(terms: LineTerms, asked: Question, name: str | None) -> Ranked:
    return terms.read(asked, name).scores_by_word()
