from typing import Any

import pytest

from agents.prompting.forms.schemas import TurnDelta, WorldChapterLock
from bench.figure import Figure
from bench.long_chapter import long_figures
from memory.fold.folding import fold
from memory.fold.present import present
from memory.fold.records import Block
from testing.long_memory import canon_of, delta_payload, long_lock, thread_of

CHUNKS = 285


def samples(**last: Any) -> list[dict[str, Any]]:
    """Return samples that meet every target. `last` replaces fields of the last sample."""
    usual = {"kind": "reply", "milliseconds": 5.0, "characters": 20_000, "tokens": 7_000.0}
    made = [{**usual, "prompt": prompt, "budget": 7_500} for prompt in (1, 208, 1_990)]
    return [
        *made,
        {**made[0], "kind": "memory"},
        {**made[0], "kind": "cold", "milliseconds": 300.0},
        {**made[0], "prompt": 2_000, **last},
    ]


def missed(figures: list[Figure]) -> list[str]:
    return [figure.name for figure in figures if figure.passed is False]


def test_a_chapter_that_meets_every_target_misses_none() -> None:
    assert missed(long_figures(samples(), "minimal")) == []


@pytest.mark.parametrize(
    ("last", "name"),
    [
        ({"tokens": 7_501.0}, "over the budget"),
        ({"characters": 17_900}, "size of prompt"),
        ({"characters": 22_100}, "size of prompt"),
        ({"milliseconds": 20.0}, "after a reply"),
        ({"milliseconds": 20.0, "kind": "memory"}, "after new memory"),
    ],
)
def test_one_prompt_is_enough_to_miss_a_target(last: dict[str, Any], name: str) -> None:
    [figure] = missed(long_figures(samples(**last), "minimal"))

    assert name in figure


def test_made_up_memory_is_as_agents_return_it() -> None:
    WorldChapterLock.model_validate(long_lock())
    for chunk in range(CHUNKS):
        TurnDelta.model_validate(delta_payload(chunk))


def test_made_up_threads_open_and_close_and_canon_grows() -> None:
    deltas = [Block("turn_delta", n * 7 + 1, n * 7 + 7, delta_payload(n)) for n in range(CHUNKS)]
    now = present(fold([Block("world_chapter_lock", 0, 0, long_lock()), *deltas]))
    threads = [fact.text for fact in now.open_threads]

    assert thread_of(CHUNKS - 1) in threads
    assert thread_of(12) in threads
    assert 20 < len(threads) < 40
    assert len(now.closed_threads) > 200
    assert canon_of(0) in [fact.text for fact in now.canon]
    assert len(now.canon) == 1 + CHUNKS // 3
    assert now.relationships
    assert now.items
    assert now.state
