"""A question to the record and to memory, and the reader who gets the answer."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from memory.blocks.blocks import knows
from memory.blocks.stretches import Audience
from memory.models import MemoryBlock
from sessions.language.words import words_and_terms
from sessions.models import Session


@dataclass(frozen=True)
class Reader:
    """The reader who gets the found passages.

    A passage is found only if each of `readers` witnessed or knows it. If `readers` is None,
    everything is found. `until` is the last prompt that may be found. Thoughts are found only with
    `with_thoughts`.

    `before` is a turn at which another attempt is being made. The memory of this turn is left out.
    `shown` are the texts of lines of memory that the reader already has in view. They are not
    found. If the reader has the text of the lock in view, `has_lock` is True.

    In a chapter before the one that is played, `later_rulings` are the rulings that the reader
    knows from the chapters after it. It is None in the chapter that is played.
    """

    chapter: Session
    readers: Audience | None = None
    until: int | None = None
    with_thoughts: bool = False
    before: int | None = None
    shown: Collection[str] = frozenset()
    has_lock: bool = False
    later_rulings: Sequence[MemoryBlock] | None = None

    @property
    def name(self) -> str | None:
        """The name of the only reader. It is None if everything is told, and "" for several
        readers, because none of them may learn a fact that only another one knows."""
        if self.readers is None:
            return None
        return self.chapter.character(self.readers[0]).name if len(self.readers) == 1 else ""

    def perceives(self, witnesses: Collection[int]) -> bool:
        return knows(witnesses, self.readers)

    def may_find(self, prompt: int) -> bool:
        return self.until is None or prompt <= self.until


class Question:
    """The words of a question. Each language makes other terms of them. With `only`, all words but
    these are left out."""

    def __init__(self, text: str, only: Collection[str] | None = None) -> None:
        self._text, self._only = text, only
        self._words: dict[str, dict[str, str]] = {}

    def only(self, words: Collection[str]) -> "Question":
        return Question(self._text, words)

    @property
    def terms(self) -> Mapping[str, Collection[str]]:
        """The terms of the question in each language that it was read in so far."""
        return {language: words.keys() for language, words in self._words.items()}

    def words_by_term(self, language: str) -> Mapping[str, str]:
        """Return the words of the question by their terms in this language."""
        words = self._words.get(language)
        if words is None:
            words = self._words[language] = {}
            for word, term in words_and_terms(self._text, language):
                if self._only is None or word in self._only:
                    words.setdefault(term, word)
        return words

    def words_in(self, language: str, counts: Mapping[str, int]) -> dict[str, int]:
        """Return how often each word of the question stands in a text of this language with these
        terms."""
        words = self.words_by_term(language)
        found: dict[str, int] = {}
        for term in words.keys() & counts.keys():
            # A word may have two terms. A text with this word has both, but the word counts once.
            found[words[term]] = max(counts[term], found.get(words[term], 0))
        return found
