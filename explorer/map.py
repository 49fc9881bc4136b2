"""The map in the column of an exploration: the places that the player knows of, the ways between
them, and the people where the player last saw them."""

import unicodedata
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from world.state import Place, World

# The width of the drawing, in its own units. The column has about as many pixels.
WIDTH, RADIUS = 264, 9
# The map has at most this many places. They are the places nearest to the player. The list beside
# the map has all places.
MOST_ON_MAP = 40
_IN_A_ROW, _ROW, _ABOVE, _BELOW = 3, 64, 28, 44
# Every second circle of a row stands lower, so that a way between its neighbours can be seen.
_LOWER = 8
_MOST_DOTS, _BETWEEN_DOTS, _DOT_ABOVE = 6, 7, 15
# The text under a circle has lines of at most this many letters, and at most this many lines.
_LETTERS, _LINES = 14, 2


@dataclass(frozen=True)
class Line:
    """A way, from circle to circle."""

    x1: int
    y1: int
    x2: int
    y2: int


@dataclass(frozen=True)
class Circle:
    """A place on the map, with its number among all places. `people` are the people whom the player
    last saw there, and `dots` are the points where they are drawn."""

    number: int
    name: str
    x: int
    y: int
    is_here: bool
    people: tuple[str, ...]
    label: tuple[tuple[int, str], ...]
    dots: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PlaceMap:
    height: int
    lines: tuple[Line, ...]
    circles: tuple[Circle, ...]

    @property
    def width(self) -> int:
        return WIDTH


def map_of(world: World, seen_at: Mapping[str, Collection[str]]) -> PlaceMap:
    """Return the map of the world. `seen_at` has the names of the people whom the player last saw
    at a place."""
    shown = _nearest(world.places, world.player_location)
    ways = {
        name: [way for way in place.ways if way in shown and way != name]
        for name, place in world.places.items()
        if name in shown
    }
    spots = laid_out(ways)
    lines = [
        Line(*spots[one], *spots[other])
        for one, others in ways.items()
        for other in others
        # A way is known from both of its ends.
        if one < other or one not in ways[other]
    ]
    circles = [
        Circle(
            list(world.places).index(name),
            name,
            x,
            y,
            name == world.player_location,
            people := tuple(seen_at.get(name, ())),
            tuple((y + 22 + 12 * at, line) for at, line in enumerate(_label(name))),
            tuple(_dots(x, y, len(people))),
        )
        for name, (x, y) in spots.items()
    ]
    return PlaceMap(height_of(spots), tuple(lines), tuple(circles))


def laid_out(ways: Mapping[str, Collection[str]]) -> dict[str, tuple[int, int]]:
    """Return the centre of each place's circle. The same places are always drawn in the same way,
    and no two circles touch.

    Places stand in rows, the first place on top, and each further one below a place to which it has
    a way. Places without ways stand in the last rows.
    """
    spots: dict[str, tuple[int, int]] = {}
    for number, row in enumerate(_rows(ways)):
        for at, name in enumerate(row):
            x = round((at + 0.5) * WIDTH / len(row))
            spots[name] = (x, _ABOVE + number * _ROW + _LOWER * (at % 2))
    return spots


def height_of(spots: Mapping[str, tuple[int, int]]) -> int:
    return max((y for _, y in spots.values()), default=0) + _BELOW


def _rows(ways: Mapping[str, Collection[str]]) -> Iterator[list[str]]:
    alone: list[str] = []
    placed: set[str] = set()
    for name in ways:
        if name in placed:
            continue
        if not ways[name]:
            alone.append(name)
            continue
        layer = [name]
        placed.add(name)
        while layer:
            yield from _chunks(layer)
            below = dict.fromkeys(way for one in layer for way in ways[one] if way not in placed)
            layer = list(below)
            placed.update(layer)
    yield from _chunks([name for name in alone if name not in placed])


def _chunks(names: list[str]) -> Iterator[list[str]]:
    for at in range(0, len(names), _IN_A_ROW):
        yield names[at : at + _IN_A_ROW]


def _nearest(places: Mapping[str, Place], start: str) -> set[str]:
    """Return as many places as the map shows: the places that are nearest by ways, and then the
    first of the other places."""
    found = dict.fromkeys([start] if start in places else [])
    waiting = deque(found)
    while waiting and len(found) < MOST_ON_MAP:
        for way in places[waiting.popleft()].ways:
            if way in places and way not in found:
                found[way] = None
                waiting.append(way)
    return set(list(dict.fromkeys([*found, *places]))[:MOST_ON_MAP])


def _dots(x: int, y: int, count: int) -> Iterator[tuple[int, int]]:
    shown = min(count, _MOST_DOTS)
    for at in range(shown):
        yield round(x + (at - (shown - 1) / 2) * _BETWEEN_DOTS), y - _DOT_ABOVE


def _label(name: str) -> list[str]:
    """Return the name in lines. It is shortened if it needs too many lines."""
    lines: list[str] = [""]
    for word in name.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and _length(longer) > _LETTERS:
            lines.append(word)
        else:
            lines[-1] = longer
    shown = [_cut(line) for line in lines[:_LINES]]
    if len(lines) > _LINES and not shown[-1].endswith("…"):
        shown[-1] = f"{_cut(shown[-1], _LETTERS - 1)}…".replace("……", "…")
    return shown


def _cut(line: str, most: int = _LETTERS) -> str:
    if _length(line) <= most:
        return line
    while line and _length(line) > most - 1:
        line = line[:-1]
    return f"{line}…"


def _length(text: str) -> int:
    """Return the width in letters. A character of Chinese or Japanese counts as two letters."""
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)
