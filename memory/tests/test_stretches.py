from hypothesis import given
from hypothesis import strategies as st

from memory.stretches import recent_context_start

steps = st.sampled_from([1, 2])


@given(prompts=st.integers(0, 3_000), stretches=steps, data=st.data())
def test_the_context_has_the_last_seven_and_all_that_memory_lacks(
    prompts: int, stretches: int, data: st.DataObject
) -> None:
    covered = data.draw(st.integers(0, prompts // 7)) * 7
    start = recent_context_start(prompts, covered, stretches=stretches)
    assert 1 <= start <= max(1, min(prompts - 6, covered + 1))
    assert start % 7 == 1


@given(prompts=st.integers(0, 3_000), stretches=steps)
def test_it_moves_on_by_so_many_stretches_and_no_further_than_it_must(
    prompts: int, stretches: int
) -> None:
    covered = prompts // 7 * 7
    starts = [
        recent_context_start(last, covered, stretches=stretches) for last in (prompts, prompts + 1)
    ]
    assert starts[1] - starts[0] in (0, 7 * stretches)
    assert prompts - starts[0] < 7 * (stretches + 1)
