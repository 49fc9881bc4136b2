from collections.abc import Sequence
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from memory.stretches import recent_context_start

steps = st.sampled_from([1, 2])
# A shorter one than seven prompts is what an end of the chapter left.
lengths = st.lists(st.sampled_from([7, 7, 7, 1, 3]), max_size=60)


def starts_of(covered: Sequence[int]) -> list[int]:
    return list(accumulate(covered, initial=1))


@given(covered=lengths, uncovered=st.integers(0, 30), stretches=steps)
def test_the_context_has_the_last_seven_and_all_that_memory_lacks(
    covered: list[int], uncovered: int, stretches: int
) -> None:
    prompts, starts = sum(covered) + uncovered, starts_of(covered)
    start = recent_context_start(prompts, starts, stretches=stretches)
    assert 1 <= start <= max(1, min(prompts - 6, sum(covered) + 1))
    # No prompt is neither in the context nor in a delta that ends before it.
    assert start in starts


@given(prompts=st.integers(0, 3_000), stretches=steps)
def test_it_moves_on_by_so_many_stretches_and_no_further_than_it_must(
    prompts: int, stretches: int
) -> None:
    starts = starts_of([7] * (prompts // 7))
    moves = [
        recent_context_start(last, starts, stretches=stretches) for last in (prompts, prompts + 1)
    ]
    assert moves[1] - moves[0] in (0, 7 * stretches)
    assert prompts - moves[0] < 7 * (stretches + 1)
