"""Tests that two texts are compared completely, and in a bounded time."""

import time

from hypothesis import given
from hypothesis import strategies as st

from memory.prose.editing.aligning import Pair, align, stretches_of
from memory.prose.editing.differences import compare
from memory.prose.receipts.paragraphs import split_paragraphs

_PARAGRAPHS = st.lists(st.sampled_from("abcd"), max_size=8)
_TEXTS = st.lists(
    st.sampled_from(
        ["The lamp burns.", "Nobody came", "夜は静か。", "# One", "***", "I'm off, she"]
    )
).map("\n\n".join)


@given(_PARAGRAPHS, _PARAGRAPHS)
def test_every_paragraph_of_both_texts_has_one_place(old: list[str], new: list[str]) -> None:
    pairs = align(old, new)
    assert [pair.old for pair in pairs if pair.old is not None] == list(range(len(old)))
    assert [pair.new for pair in pairs if pair.new is not None] == list(range(len(new)))
    for pair in pairs:
        is_pair = pair.old is not None and pair.new is not None
        assert is_pair or not pair.is_same
        if pair.is_same and pair.old is not None and pair.new is not None:
            assert old[pair.old] == new[pair.new]


def test_a_changed_paragraph_stands_beside_the_one_that_it_was() -> None:
    old = ["A ferryman refuses the coin.", "Geese fly over the lake at noon."]
    new = ["A bishop sneezes.", "Geese fly over the dark lake at noon."]
    assert align(old, new) == [Pair(0, None), Pair(None, 0), Pair(1, 1)]


@given(_TEXTS, _TEXTS)
def test_both_texts_are_told_whole(old: str, new: str) -> None:
    rows = compare(old, new)
    for text, numbers, sides in (
        (old, [row.old for row in rows], [row.old_parts for row in rows]),
        (new, [row.new for row in rows], [row.new_parts for row in rows]),
    ):
        told = ["".join(part.text for part in parts) for parts in sides]
        assert [one for one in told if one] == [one.text for one in split_paragraphs(text)]
        found = [number for number in numbers if number]
        assert found == list(range(1, len(split_paragraphs(text)) + 1))


def test_what_is_not_compared_in_time_counts_as_replaced() -> None:
    old, new = list("abcdefgh" * 50), list("hgfedcba" * 50)
    found = stretches_of(old, new, deadline=time.time() - 1)
    assert [token for one in found for token in old[one.start : one.end]] == old
    assert [token for one in found for token in new[one.new_start : one.new_end]] == new
    assert sum(one.is_same for one in found) < 5
