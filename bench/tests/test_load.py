"""Tests of what `make bench LOAD=1` and `SCALE=1` build and work out."""

import math
from uuid import UUID

import pytest

from bench.load.chapters import to_play
from bench.load.client import StreamedTurn
from bench.load.scale import figures_of
from bench.load.streams import added_delays, percentile
from sessions.chapter.access import get_chapter


@pytest.mark.django_db
def test_chapters_are_built_with_different_numbers_of_prompts() -> None:
    chapters = [get_chapter(UUID(one)) for one in to_play(8)]
    assert [one.prompt_index for one in chapters] == [8, 9, 10, 11, 12, 13, 14, 8]


def test_the_model_servers_own_time_is_taken_off() -> None:
    mark = "Turn a-1 of the load."
    turns = [StreamedTurn(mark, 0.0, first_token=0.230), StreamedTurn("Turn b-1 of the load.", 0.0)]
    calls = [
        {"prompt": f"1) Turn a-0 of the load.\n2) {mark}", "first_token_ms": 205.0},
        {"prompt": "a summary", "first_token_ms": 1.0},
    ]
    assert added_delays(turns, calls) == [pytest.approx(25.0)]


def test_the_95th_percentile_is_one_of_the_values() -> None:
    assert percentile(range(1, 101), 95) == 95
    assert percentile([3.0], 95) == 3.0
    assert percentile([], 95) == math.inf


def test_the_other_window_may_wait_twice_as_long() -> None:
    assert [one.passed for one in figures_of("two of each", [1.0], [2.0])] == [None, True]
    assert [one.passed for one in figures_of("two of each", [1.0], [2.1])] == [None, False]
