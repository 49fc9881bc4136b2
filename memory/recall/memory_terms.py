"""Ranks the lines of memory by how well they fit a question. Their terms are worked out when
somebody asks for the first time after memory has changed."""

import uuid
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache

from memory.blocks.stretches import Audience
from memory.fold.folding import fold_chapter
from memory.fold.records import Fold
from memory.keeping import KeptRecent
from memory.recall.postings import Postings
from memory.recall.questions import Question, Reader
from memory.recall.ranking import Field
from memory.telling.session_state import StateLine, memory_lines
from sessions.language.words import terms_of
from sessions.roster import Character

# Lines about facts that are not true are no passages.
_WITHDRAWN = "no_longer_true"


class LineTerms:
    """The terms of lines of memory. `language` decides how words in Latin letters are read."""

    def __init__(self, lines: Iterable[StateLine], language: str) -> None:
        self.language = language
        self.lines = [line for line in lines if not line.heads and line.tag != _WITHDRAWN]
        self._lengths = array("I")
        # The terms that an intent adds to the terms of a deed.
        self._said, self._intents = Postings(), Postings()
        self._intent_lengths: dict[int, int] = {}
        for at, line in enumerate(self.lines):
            said = count_terms(line.said, language)
            self._lengths.append(said.total())
            self._said.add(at, said)
            if line.intended:
                intent = count_terms(line.intended, language) - said
                self._intent_lengths[at] = intent.total()
                self._intents.add(at, intent)

    def read(self, asked: Question, name: str | None) -> Field:
        """Return the texts of the lines in the form for the reader with this name."""
        texts = Field(lengths=dict(enumerate(self._lengths)))
        words = asked.words_by_term(self.language)
        for at, word, count in self._said.find(words):
            texts.add(at, 0, {word: count})
        for at, length in self._intent_lengths.items():
            if self.lines[at].is_more_for(name):
                texts.add(at, length, {})
        for at, word, count in self._intents.find(words):
            if self.lines[at].is_more_for(name):
                texts.add(at, 0, {word: count})
        return texts


class _MemoryTerms(LineTerms):
    """The terms of the lines of a fold."""

    def __init__(self, folded: Fold, roster: Sequence[Character], language: str) -> None:
        super().__init__(memory_lines(folded, roster), language)
        self._folded, self._roster = folded, roster

    def is_of(self, folded: Fold, roster: Sequence[Character], language: str) -> bool:
        """Return whether these are the terms of this fold. An unchanged fold is the same object."""
        return self._folded is folded and (self._roster, self.language) == (roster, language)

    @cached_property
    def beside_lock(self) -> frozenset[str]:
        """The texts of the lines that do not stand in the text of the lock."""
        lines = memory_lines(self._folded, self._roster, beside_lock=True)
        return frozenset(line.text for line in lines)


# The cache of terms for each chapter and the readers of its memory. The limit of the cache counts
# lines.
_kept: KeptRecent[tuple[uuid.UUID, Audience | None, bool], _MemoryTerms] = KeptRecent(32_768)


def rank_memory(reader: Reader, asked: Question, language: str) -> list[tuple[StateLine, float]]:
    """Return the lines of memory that fit the question, that the reader may know, and that the
    reader does not have in view, each with its score. `language` is the language of the chapter."""
    chapter = reader.chapter
    folded = fold_chapter(chapter, before=reader.before, readers=reader.readers)
    roster = chapter.characters
    key = (chapter.pk, reader.readers if chapter.differs_by_reader else None, reader.before is None)
    terms = _kept.get(key)
    if terms is None or not terms.is_of(folded, roster, language):
        terms = _MemoryTerms(folded, roster, language)
        _kept.set(key, terms, size=1 + len(terms.lines))
    name = reader.name
    scored = ((terms.lines[at], score) for at, score in terms.read(asked, name).scores().items())
    return [
        (line, score)
        for line, score in scored
        if reader.may_find(line.prompt)
        and not (reader.has_lock and not line.prompt and line.text not in terms.beside_lock)
        and line.for_reader(name) not in reader.shown
    ]


# The terms are cached. There are few lines and places compared with the words of the record, and
# most of them do not change when memory grows.
@lru_cache(maxsize=16_384)
def count_terms(text: str, language: str) -> Counter[str]:
    """Return the terms of a text of memory. The result must not be changed."""
    return Counter(terms_of(text, language))
