"""Ranks turns by how well they fit a question (BM25). Nothing here reads the database, and the same
counts always give the same scores."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

# How soon further occurrences of a word count less, and how much the length of a text counts.
_SATURATION, _BY_LENGTH = 1.2, 0.75
# The weights of the text of the turn before, and of the place and time of a turn, beside the turn's
# own text.
_BEFORE, _PLACE = 0.5, 0.3


@dataclass
class Field:
    """One text of each turn: its number of terms, and how often it has each word of the question.
    Both are keyed by the number of the turn."""

    lengths: dict[int, int] = field(default_factory=dict)
    found: dict[int, dict[str, int]] = field(default_factory=dict)

    def add(self, number: int, length: int, found: Mapping[str, int]) -> None:
        """Add a part of the text of turn `number`."""
        self.lengths[number] = self.lengths.get(number, 0) + length
        if found:
            counts = self.found.setdefault(number, {})
            for word, count in found.items():
                counts[word] = counts.get(word, 0) + count

    def scores_by_word(self) -> dict[str, dict[int, float]]:
        """Return, for each word of the question, the score that it adds to each turn that has the
        word."""
        turns = len(self.lengths)
        usual = max(sum(self.lengths.values()) / turns, 1.0) if turns else 1.0
        by_word: dict[str, dict[int, int]] = {}
        for number, counts in self.found.items():
            for word, count in counts.items():
                by_word.setdefault(word, {})[number] = count
        scores: dict[str, dict[int, float]] = {}
        for word, counts_of_turns in by_word.items():
            spread = len(counts_of_turns)
            weight = math.log(1 + (turns - spread + 0.5) / (spread + 0.5)) * (_SATURATION + 1)
            scores[word] = {
                number: weight * count / (count + _SATURATION * self._by_length(number, usual))
                for number, count in counts_of_turns.items()
            }
        return scores

    def scores(self) -> dict[int, float]:
        """Return the score of each turn that has a word of the question."""
        return _sum(self.scores_by_word())

    def _by_length(self, number: int, usual: float) -> float:
        return 1 - _BY_LENGTH + _BY_LENGTH * self.lengths[number] / usual


def rank(own: Field, places: Field) -> list[tuple[int, float]]:
    """Return the numbers of the turns that fit the question, each with its score, best first. Of
    turns with equal scores, the earlier turn comes first.

    `own` has the text of each turn, and `places` has its place and time.
    """
    scored = _with_neighbours(own, own.scores(), places.scores())
    return sorted(scored.items(), key=lambda one: (-one[1], one[0]))


def rank_words(own: Field, places: Field) -> dict[str, dict[int, float]]:
    """Return, for each word of the question, the score that it adds to each turn in `rank`."""
    by_text, by_place = own.scores_by_word(), places.scores_by_word()
    return {
        word: _with_neighbours(own, by_text.get(word, {}), by_place.get(word, {}))
        for word in by_text.keys() | by_place.keys()
    }


def _with_neighbours(
    own: Field, by_text: Mapping[int, float], by_place: Mapping[int, float]
) -> dict[int, float]:
    """Return the score of each turn by its text, the text of the turn before, and its place."""
    scored = {}
    for number in {*by_text, *(number + 1 for number in by_text), *by_place} & own.lengths.keys():
        score = by_text.get(number, 0.0)
        score += _BEFORE * by_text.get(number - 1, 0.0)
        score += _PLACE * by_place.get(number, 0.0)
        scored[number] = score
    return scored


def _sum(scores: Mapping[str, Mapping[int, float]]) -> dict[int, float]:
    total: dict[int, float] = {}
    # The words are added in one order, because the order changes the rounding of the sum.
    for word in sorted(scores):
        for number, score in scores[word].items():
            total[number] = total.get(number, 0.0) + score
    return total
