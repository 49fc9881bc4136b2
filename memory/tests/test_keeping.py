from hypothesis import given
from hypothesis import strategies as st

from memory.keeping import KeptRecent


def test_the_oldest_makes_room() -> None:
    kept = KeptRecent[str, int](2)
    for number, key in enumerate("abc"):
        kept.set(key, number)
    assert [kept.get(key) for key in "abc"] == [None, 1, 2]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 12))))
def test_all_that_is_kept_fits(sets: list[tuple[int, int]]) -> None:
    kept = KeptRecent[int, int](10)
    for key, size in sets:
        kept.set(key, size, size=size)
        assert kept.get(key) == size
        sizes = [found for each in range(6) if (found := kept.get(each)) is not None]
        assert sum(sizes) <= 10 or sizes == [size]
