"""Ranks turns by how well they fit a question (BM25). Nothing here reads the database, and the same
counts always give the same scores."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

# How soon further occurrences of a word count less, and how much the length of a text counts.
_SATURATION, _BY_LENGTH = 1.2, 0.75
# What the turn before and the place and time of a turn count, beside the turn's own text.
_BEFORE, _PLACE = 0.5, 0.3


@dataclass
class Field:
    """A text of each turn: how many terms it has, and how often each word of the question. Both are
    by the number of the turn."""

    lengths: dict[int, int] = field(default_factory=dict)
    found: dict[int, dict[str, int]] = field(default_factory=dict)

    def add(self, number: int, length: int, found: Mapping[str, int]) -> None:
        """Add a part of the text of turn `number`."""
        self.lengths[number] = self.lengths.get(number, 0) + length
        if found:
            counts = self.found.setdefault(number, {})
            for word, count in found.items():
                counts[word] = counts.get(word, 0) + count

    def scores(self) -> dict[int, float]:
        """Return the score of each turn that has a word of the question."""
        turns = len(self.lengths)
        usual = max(sum(self.lengths.values()) / turns, 1.0) if turns else 1.0
        spread: dict[str, int] = {}
        for counts in self.found.values():
            for word in counts:
                spread[word] = spread.get(word, 0) + 1
        rarity = {
            word: math.log(1 + (turns - count + 0.5) / (count + 0.5))
            for word, count in spread.items()
        }
        scores = {}
        for number, counts in self.found.items():
            by_length = 1 - _BY_LENGTH + _BY_LENGTH * self.lengths[number] / usual
            # The words are added in one order, because the sum of fractions depends on it.
            scores[number] = sum(
                rarity[word] * count * (_SATURATION + 1) / (count + _SATURATION * by_length)
                for word, count in sorted(counts.items())
            )
        return scores


def rank(own: Field, places: Field) -> list[tuple[int, float]]:
    """Return the numbers of the turns that fit the question, each with its score, best first. Of
    equal turns the earlier one comes first.

    `own` has the text of each turn, and `places` its place and time.
    """
    by_text, by_place = own.scores(), places.scores()
    scored = {}
    for number in own.lengths:
        score = by_text.get(number, 0.0)
        score += _BEFORE * by_text.get(number - 1, 0.0)
        score += _PLACE * by_place.get(number, 0.0)
        if score > 0:
            scored[number] = score
    return sorted(scored.items(), key=lambda one: (-one[1], one[0]))
