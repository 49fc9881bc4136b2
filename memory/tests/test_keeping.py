from hypothesis import given
from hypothesis import strategies as st

from memory.keeping import KeptRecent


def test_the_oldest_makes_room() -> None:
    kept = KeptRecent[str, int](2)
    for number, key in enumerate("abc"):
        kept.set(key, number)
    assert [kept.get(key) for key in "abc"] == [None, 1, 2]


def test_what_is_set_again_is_the_newest() -> None:
    kept = KeptRecent[str, int](2)
    for number, key in enumerate("abac"):
        kept.set(key, number)
    assert [kept.get(key) for key in "abc"] == [2, None, 3]


def test_one_that_is_larger_than_the_room_stays_until_the_next() -> None:
    kept = KeptRecent[str, int](3)
    kept.set("small", 1)
    kept.set("large", 2, size=10)
    assert (kept.get("small"), kept.get("large")) == (None, 2)
    kept.set("small", 3)
    assert (kept.get("small"), kept.get("large")) == (3, None)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 12))))
def test_all_that_is_kept_fits(sets: list[tuple[int, int]]) -> None:
    kept = KeptRecent[int, int](10)
    for key, size in sets:
        kept.set(key, size, size=size)
        assert kept.get(key) == size
        sizes = [found for each in range(6) if (found := kept.get(each)) is not None]
        assert sum(sizes) <= 10 or sizes == [size]
