from hypothesis import given
from hypothesis import strategies as st

from memory.chunks import Chunk, catching_up, due_chunks, recent_context_start
from sessions.models import Session

steps = st.sampled_from([1, 2])
sizes = st.integers(3, 20)


@given(
    prompts=st.integers(0, 3_000),
    chunks=steps,
    size=sizes,
    offset=st.integers(0, 19),
    data=st.data(),
)
def test_the_context_has_the_last_prompts_and_all_that_memory_lacks(
    prompts: int, chunks: int, size: int, offset: int, data: st.DataObject
) -> None:
    """The first stretch may be shorter, where something ended it early."""
    covered = data.draw(st.integers(0, prompts // size)) * size
    covered = min(prompts, covered + offset)
    start = recent_context_start(prompts, covered, size, chunks=chunks)
    assert 1 <= start <= max(1, min(prompts - size + 1, covered + 1))
    assert start == 1 or (covered + 1 - start) % size == 0


@given(prompts=st.integers(0, 3_000), chunks=steps, size=sizes)
def test_it_moves_on_by_so_many_chunks_and_no_further_than_it_must(
    prompts: int, chunks: int, size: int
) -> None:
    covered = prompts // size * size
    starts = [
        recent_context_start(last, covered, size, chunks=chunks) for last in (prompts, prompts + 1)
    ]
    assert starts[1] - starts[0] in (0, size * chunks)
    assert prompts - starts[0] < size * (chunks + 1)


@given(prompts=st.integers(0, 300), covered=st.integers(0, 300), size=sizes)
def test_stretches_are_counted_from_the_pointer_on(prompts: int, covered: int, size: int) -> None:
    covered = min(covered, prompts)
    chapter = Session(
        prompt_index=prompts,
        last_summarized_prompt_index=covered,
        chunk_size_prompts=size,
        accepted_calls=1,
    )
    due = due_chunks(chapter, is_ending=False)
    assert due == [
        Chunk(first, first + size - 1) for first in range(covered + 1, prompts - size + 2, size)
    ]
    assert all(chunk.is_whole(chapter) for chunk in due)
    ending = due_chunks(chapter, is_ending=True)
    assert [number for one in ending for number in range(one.first, one.last + 1)] == list(
        range(covered + 1, prompts + 1)
    )
    assert not any(chunk.is_whole(chapter) for chunk in ending[len(due) :])
    behind = catching_up(chapter)
    assert (behind.count - behind.written if behind else 0) == len(due)
