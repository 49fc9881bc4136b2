"""The map of places: a plan of circles that never touch."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from explorer.map import MOST_ON_MAP, RADIUS, WIDTH, height_of, laid_out

NUMBERS = st.integers(0, MOST_ON_MAP - 1)


@given(st.integers(1, MOST_ON_MAP), st.lists(st.tuples(NUMBERS, NUMBERS), max_size=60))
def test_all_circles_are_in_the_box_and_none_touch(
    count: int, pairs: list[tuple[int, int]]
) -> None:
    ways: dict[str, list[str]] = {f"place {at}": [] for at in range(count)}
    for one, other in pairs:
        if one < other < count:
            ways[f"place {one}"].append(f"place {other}")
            ways[f"place {other}"].append(f"place {one}")
    spots = laid_out(ways)
    assert spots.keys() == ways.keys()
    assert spots == laid_out(ways)
    height = height_of(spots)
    for x, y in spots.values():
        assert RADIUS <= x <= WIDTH - RADIUS
        assert RADIUS <= y <= height - RADIUS
    for (x, y), (other_x, other_y) in combinations(spots.values(), 2):
        assert (x - other_x) ** 2 + (y - other_y) ** 2 > (2 * RADIUS) ** 2
