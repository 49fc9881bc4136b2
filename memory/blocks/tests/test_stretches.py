from collections.abc import Sequence
from itertools import accumulate
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from memory.blocks.stretches import Stretch, catching_up, due_stretches, recent_context_start
from sessions.models import Session

steps = st.sampled_from([1, 2])
sizes = st.integers(3, 20)


def starts_of(covered: Sequence[int]) -> list[int]:
    return list(accumulate(covered, initial=1))


@given(data=st.data(), size=sizes, uncovered=st.integers(0, 30), stretches=steps)
def test_the_context_has_the_last_prompts_and_all_that_memory_lacks(
    data: st.DataObject, size: int, uncovered: int, stretches: int
) -> None:
    """The drawn stretches may be shorter than `chunk_size_prompts`, because a mode may end a
    stretch early."""
    lengths = st.just(size) | st.integers(1, size)
    covered = data.draw(st.lists(lengths, max_size=60))
    prompts, starts = sum(covered) + uncovered, starts_of(covered)
    start = recent_context_start(prompts, starts, size, stretches=stretches)
    assert 1 <= start <= max(1, min(prompts - size + 1, sum(covered) + 1))
    # The context begins at the first prompt or right after a delta. So each prompt is either in the
    # context or in a delta before the context.
    assert start in starts


@given(prompts=st.integers(0, 300), covered=st.integers(0, 300), size=sizes)
def test_stretches_are_counted_from_the_pointer_on(prompts: int, covered: int, size: int) -> None:
    covered = min(covered, prompts)
    chapter = Session(
        prompt_index=prompts,
        last_summarized_prompt_index=covered,
        chunk_size_prompts=size,
        accepted_calls=1,
    )
    due = due_stretches(chapter, is_ending=False)
    assert due == [
        Stretch(first, first + size - 1) for first in range(covered + 1, prompts - size + 2, size)
    ]
    ending = due_stretches(chapter, is_ending=True)
    assert [number for one in ending for number in range(one.first, one.last + 1)] == list(
        range(covered + 1, prompts + 1)
    )
    assert ending[: len(due)] == due
    assert all(stretch.size < size for stretch in ending[len(due) :])
    behind = catching_up(chapter)
    assert (behind.count - behind.written if behind else 0) == len(due)


@given(
    ends=st.sets(st.integers(1, 120)),
    prompts=st.integers(0, 120),
    covered=st.integers(0, 120),
    size=sizes,
    is_ending=st.booleans(),
)
def test_one_that_ends_early_leaves_no_gap(
    ends: set[int], prompts: int, covered: int, size: int, is_ending: bool
) -> None:
    covered = min(covered, prompts)
    chapter = Session(
        prompt_index=prompts, last_summarized_prompt_index=covered, chunk_size_prompts=size
    )
    with patch("memory.blocks.stretches._early_ends", return_value=ends):
        due = due_stretches(chapter, is_ending=is_ending)
    told = [number for one in due for number in range(one.first, one.last + 1)]
    last = due[-1].last if due else covered
    assert told == list(range(covered + 1, last + 1))
    assert all(one.size == size or one.last in ends for one in due if one.last < prompts)
    assert all(one.size <= size for one in due)
    assert not any(ends & set(range(one.first, one.last)) for one in due)
    # The prompts after the last stretch are too few for another stretch. At the end of a chapter,
    # no prompt comes after the last stretch.
    assert not ends & set(range(last + 1, prompts + 1))
    assert prompts - last < (1 if is_ending else size)
