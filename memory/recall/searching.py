"""Finds passages for a person who searches, and shows the part of each passage around the words
that were found.

Passages with all words as they were typed come first. If a prompt and a line of memory say the
same, only the prompt is shown. Requests of models do not use this module; they have passages in the
order of `recall`.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from memory.recall.questions import Question, Reader
from memory.recall.recalling import Passage, recall
from sessions.language.words import AsTyped, is_unspaced, places_of, terms_of

# The number of the best passages that are put in order.
_LOOKED_AT = 100
# At most this many characters of a passage are shown. The second number is how many of them come
# before the word that was found.
_EXCERPT, _BEFORE = 320, 80
# A prompt says the same as a line of memory if it has this fraction of the line's terms, close
# together.
_SAME_SHARE, _SAME_SPREAD = 0.75, 2


@dataclass(frozen=True)
class Piece:
    """A part of an excerpt. It is a hit if its words are words of the search."""

    text: str
    is_hit: bool = False


@dataclass(frozen=True)
class Found:
    """A passage, and the part of it that is shown."""

    passage: Passage
    excerpt: Sequence[Piece]


def search(reader: Reader, words: str, k: int) -> list[Found]:
    """Return the best `k` passages that the words are about: first the passages with all words as
    they were typed, and then the others, the best first in both groups."""
    asked = Question(words)
    passages = recall(reader, asked, max(k, _LOOKED_AT))
    typed = AsTyped(words, asked.terms)
    passages = list(_once(passages, list(asked.terms)))
    passages.sort(key=lambda one: not typed.are_in(one.words))
    return [Found(one, _excerpt(one.words, asked, typed)) for one in passages[:k]]


def _once(passages: Sequence[Passage], languages: Sequence[str]) -> Iterator[Passage]:
    """Yield each passage once. If a turn says the same as a line of memory, yield the turn in place
    of the line."""
    turns = [one for one in passages if one.line is None]
    said = (
        {id(one): _Said(one.words, languages) for one in turns}
        if len(turns) < len(passages)
        else {}
    )
    told: set[int] = set()
    for passage in passages:
        shown = passage
        if passage.line is not None:
            line = _Said(passage.line.said, languages)
            same = (
                turn
                for turn in turns
                if turn.earlier == passage.earlier
                and turn.prompt_index <= passage.prompt_index
                and said[id(turn)].says(line)
            )
            shown = next(same, passage)
        if id(shown) not in told:
            told.add(id(shown))
            # The turn takes the place of the line.
            yield passage if shown is passage else replace(shown, score=passage.score)


class _Said:
    """The terms of a text in each of the languages. Texts are compared by these terms."""

    def __init__(self, text: str, languages: Sequence[str]) -> None:
        self._terms = [terms_of(text, language) for language in languages]
        self._sets = [frozenset(terms) for terms in self._terms]

    def says(self, line: "_Said") -> bool:
        """Return whether a part of this text, not much longer than the line, has most of its
        terms."""
        return any(map(_says, self._terms, self._sets, line._sets))


def _says(terms: Sequence[str], all_terms: frozenset[str], line: frozenset[str]) -> bool:
    least = max(1.0, len(line) * _SAME_SHARE)
    if len(line & all_terms) < least:
        return False
    places = [(at, term) for at, term in enumerate(terms) if term in line]
    near: Counter[str] = Counter()
    first = 0
    for at, term in places:
        near[term] += 1
        while places[first][0] <= at - len(line) * _SAME_SPREAD:
            near[places[first][1]] -= 1
            first += 1
        if len(+near) >= least:
            return True
    return False


def _excerpt(text: str, asked: Question, typed: AsTyped) -> list[Piece]:
    """Return the part of the text around the first word that stands there as it was typed. If there
    is none, return the part around the first word that was found, or else the beginning of the
    text."""
    plain = " ".join(text.split())
    places = places_of(asked.terms, plain)
    at = places[typed.first_place(plain, places)][0] if places else 0
    start, end = _cut(plain, at)
    pieces = [Piece("… ")] if start else []
    done = start
    for first, last in places:
        first, last = max(first, start), min(last, end)
        if first < last:
            pieces += [Piece(plain[done:first]), Piece(plain[first:last], is_hit=True)]
            done = last
    pieces += [Piece(plain[done:end]), Piece(" …" if end < len(plain) else "")]
    return [one for one in pieces if one.text]


def _cut(text: str, at: int) -> tuple[int, int]:
    """Return the beginning and the end of the part around a place. The part is cut at blanks, or
    between characters of a script without blanks."""
    start = 0
    if at > _BEFORE and len(text) > _EXCERPT:
        start = _whole(text, at - _BEFORE)
        if not is_unspaced(text[start]):
            start = text.find(" ", start - 1, at) + 1 or start
    end = start + _EXCERPT
    if end >= len(text):
        return start, len(text)
    end = _whole(text, end)
    if not is_unspaced(text[end]):
        blank = text.rfind(" ", at + 1, end + 1)
        end = blank if blank > 0 else end
    return start, end


def _whole(text: str, at: int) -> int:
    """Return the place. If it parts a letter from its marks, return the place before the letter."""
    while at and (unicodedata.category(text[at])[0] == "M" or "\u200d" in text[at - 1 : at + 1]):
        at -= 1
    return at
