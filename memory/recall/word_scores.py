"""Keeps the scores that words add to texts which do not change.

Play continues in the latest chapter, so earlier chapters seldom change. With the kept scores, a
search of an earlier chapter takes few steps for each text that has a word of the question.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from heapq import nsmallest

from memory.recall.questions import Question

# The terms of a word of a question, each with its language.
_Terms = tuple[tuple[str, str], ...]
# For each word of a question, the score that it adds to each text, by the number of the text.
Ranked = Mapping[str, Mapping[int, float]]
# A word that stands in more than one of this many texts is kept with a score for every text,
# because lists of the same length are added up fast.
_FEW = 8


class WordScores:
    """The scores of texts, by the words of questions. `numbers` are the numbers of the texts in
    ascending order."""

    def __init__(self, numbers: Sequence[int], languages: Sequence[str]) -> None:
        self._numbers, self._languages = numbers, languages
        self._at = {number: at for at, number in enumerate(numbers)}
        # For a word that stands in many texts, a score for every text. For any other word, the
        # places and the scores of the few texts that have it.
        self._many: dict[_Terms, array[float]] = {}
        self._few: dict[_Terms, tuple[array[int], array[float]]] = {}
        self.size = 1 + len(numbers)

    def best(
        self, asked: Question, k: int, rank_words: Callable[[Question], Ranked]
    ) -> list[tuple[int, float]]:
        """Return the best `k` texts that fit the question, each with its score, best first. Of
        texts with equal scores, the text with the lower number comes first.

        `rank_words` scores the texts by the words of a question. It is called for the words that
        are not kept yet.
        """
        terms = self._terms_by_word(asked)
        if missing := [word for word, one in terms.items() if not self._has(one)]:
            ranked = rank_words(asked.only(missing))
            for word in missing:
                self._keep(terms[word], ranked.get(word, {}))
        # The words are added in one order, because the order changes the rounding of the sum.
        ordered = [terms[word] for word in sorted(terms)]
        many = [self._many[one] for one in ordered if one in self._many]
        total = [0.0] * len(self._numbers)
        if many:
            total = list(map(float, map(sum, zip(*many, strict=True))))
        for one in ordered:
            if one in self._few:
                for at, score in zip(*self._few[one], strict=True):
                    total[at] += score
        scored = ((-score, at) for at, score in enumerate(total) if score > 0)
        return [(self._numbers[at], -score) for score, at in nsmallest(k, scored)]

    def _has(self, terms: _Terms) -> bool:
        return terms in self._many or terms in self._few

    def _keep(self, terms: _Terms, scores: Mapping[int, float]) -> None:
        places = array("I", (self._at[number] for number in scores))
        if len(scores) * _FEW <= len(self._numbers):
            self._few[terms] = (places, array("d", scores.values()))
            self.size += 1 + len(scores)
            return
        every = array("d", bytes(8 * len(self._numbers)))
        for at, score in zip(places, scores.values(), strict=True):
            every[at] = score
        self._many[terms] = every
        self.size += 1 + len(every)

    def _terms_by_word(self, asked: Question) -> dict[str, _Terms]:
        terms: dict[str, _Terms] = {}
        for language in self._languages:
            for term, word in asked.words_by_term(language).items():
                terms[word] = (*terms.get(word, ()), (language, term))
        return terms
