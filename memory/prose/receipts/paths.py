"""Finds the best path of paragraphs through turns, by a dynamic program.

A path says of each paragraph which turn it tells, or leaves the paragraph out. It may step back or
leap ahead, but each of these costs something.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

# A paragraph on the path needs at least the first number as its likeness. The second number is
# subtracted from it if the paragraph before tells the same turn or the turn before.
_LEAST, _BESIDE = 4.0, 1.5
# The cost of each turn that is left out, the highest cost of a leap ahead, and the cost of a step
# back.
_LEFT_OUT, _MOST_LEAP, _BACK = 0.25, 2.0, 4.0
# A leap of at least this distance has the highest cost.
_FAR = 9
# The turns that are looked at for each paragraph.
_CANDIDATES = 8


@dataclass(frozen=True)
class _Step:
    """A paragraph on a path, the place of the turn that it tells, and the step before."""

    paragraph: int
    place: int
    before: Self | None


class _Paths:
    """The best of all paths that end at each of the places 0 to `count` - 1, as far as the
    paragraphs were added."""

    def __init__(self, count: int) -> None:
        self._values = [-math.inf] * count
        self._steps: list[_Step | None] = [None] * count

    def add(self, paragraph: int, candidates: Sequence[tuple[float, int]]) -> None:
        """Add the next paragraph. `candidates` are turns that it may tell, each as its likeness and
        its place."""
        reached = list(accumulate(self._values, max))
        longer = []
        for likeness, place in candidates:
            value, before = self._best_before(place, reached)
            step = None if before is None else self._steps[before]
            longer.append((value + likeness - _LEAST, _Step(paragraph, place, step)))
        for value, made in longer:
            if value > self._values[made.place]:
                self._values[made.place], self._steps[made.place] = value, made

    def _best_before(self, place: int, reached: Sequence[float]) -> tuple[float, int | None]:
        """Return the value of the best path that can be continued to the place, minus the cost of
        this step, and the place where this path ends. `reached` has the best value up to each
        place."""
        options: list[tuple[float, int | None]] = [(-min(place * _LEFT_OUT, _MOST_LEAP), None)]
        for distance in range(min(place + 1, _FAR)):
            cost = max(distance - 1, 0) * _LEFT_OUT - (_BESIDE if distance <= 1 else 0)
            options.append((self._values[place - distance] - cost, place - distance))
        for highest, cost in ((reached[place], _MOST_LEAP), (reached[-1], _BACK)):
            if highest - cost > max(value for value, _ in options):
                options.append((highest - cost, self._values.index(highest)))
        return max(options, key=lambda one: one[0])

    def best(self) -> _Step | None:
        """Return the last step of the best path. None if every path is worse than no path."""
        highest = max(self._values)
        return self._steps[self._values.index(highest)] if highest > 0 else None


def best_path(likenesses: Sequence[dict[int, float]], first: int, last: int) -> dict[int, int]:
    """Return the best path, as the places of the turns by the numbers of the paragraphs.

    `likenesses` has the likeness of each paragraph with each turn, by the turn's place. The path
    goes only through the places `first` to `last`.
    """
    if last < first:
        return {}
    paths = _Paths(last - first + 1)
    for number, of_paragraph in enumerate(likenesses):
        inside = [
            (likeness, place - first)
            for place, likeness in of_paragraph.items()
            if first <= place <= last and likeness > _LEAST - _BESIDE
        ]
        if inside:
            inside.sort(key=lambda one: (-one[0], one[1]))
            paths.add(number, inside[:_CANDIDATES])
    path = {}
    step = paths.best()
    while step is not None:
        path[step.paragraph] = step.place + first
        step = step.before
    return path


def path_beyond(
    likenesses: Sequence[dict[int, float]], path: dict[int, int], count: int, sure: float
) -> dict[int, int]:
    """Return the places of turns, from 0 to `count` - 1, for paragraphs that the path leaves out.

    Only paragraphs that follow each other and tell the same turn or the next one support each
    other, and one of them must have at least the likeness `sure`.
    """
    rest = [{} if number in path else one for number, one in enumerate(likenesses)]
    found = best_path(rest, 0, count - 1)
    rows: list[list[int]] = []
    for number in sorted(found):
        last = rows[-1][-1] if rows else None
        if last == number - 1 and found[number] - found[number - 1] in (0, 1):
            rows[-1].append(number)
        else:
            rows.append([number])
    supported = (row for row in rows if any(likenesses[one][found[one]] >= sure for one in row))
    return {number: found[number] for row in supported for number in row}


def room_on(
    path: dict[int, int], paragraph: int, ends: tuple[int, int], reach: int
) -> tuple[int, int]:
    """Return the first and the last place that a paragraph on the path may tell beside its own,
    without passing its neighbours on the path. The places are within `ends`, and at most `reach`
    away."""
    place = path[paragraph]
    before = max((one for one in path if one < paragraph), default=None)
    after = min((one for one in path if one > paragraph), default=None)
    low = ends[0] if before is None else min(path[before], place)
    high = ends[1] if after is None else max(path[after], place)
    return max(low, place - reach), min(high, place + reach)
