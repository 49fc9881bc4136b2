import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figure import Figure
from bench.prompt_figures import (
    LEAST_CACHED,
    cached_starts,
    prompt_figures,
    remembered_figure,
    repeated_starts,
)


def named(figures: list[Figure], part: str) -> Figure:
    return next(figure for figure in figures if part in figure.name)


def shared(one: str, other: str) -> int:
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    return same


@given(st.lists(st.text("ab", max_size=12), max_size=20))
def test_a_start_is_compared_with_every_earlier_prompt(prompts: list[str]) -> None:
    expected = [
        max((shared(prompt, earlier) for earlier in prompts[:at]), default=0)
        for at, prompt in enumerate(prompts)
    ]
    assert repeated_starts(prompts) == expected


def test_a_short_start_is_in_no_cache() -> None:
    start = "x" * LEAST_CACHED
    assert cached_starts([start + "a", start[1:] + "b", start + "c"]) == [0, 0, LEAST_CACHED]


def test_a_repeated_character_costs_a_tenth() -> None:
    figures = prompt_figures(["x" * 10_000, "x" * 9_000 + "y" * 1_000], pairs=2)

    assert named(figures, "Characters sent").measured == 20_000
    assert named(figures, "share").measured == pytest.approx(0.45)
    assert named(figures, "cost").measured == pytest.approx(11_000 + 900)


def test_targets_hold_for_the_session_that_they_are_for() -> None:
    small = ["x" * 10_000] * 84
    assert {f.passed for f in prompt_figures(small, pairs=84)[:3]} == {True}
    assert {f.passed for f in prompt_figures(small, pairs=14)} == {None}
    changing = [str(number) * 20_000 for number in range(10, 94)]
    assert {f.passed for f in prompt_figures(changing, pairs=84)[:3]} == {False}


def test_what_memory_holds_is_looked_for_in_the_last_prompt() -> None:
    facts = {"canon locks": ["The bell is cracked"], "open threads": ["who rang  it?", "the key"]}
    figure = remembered_figure(facts, "<c>the bell is\ncracked</c> Who rang it?")

    assert figure.value.startswith("1 of 1 canon locks, 1 of 2 open threads")
    assert "the key" in figure.value
    assert figure.passed is False
    assert remembered_figure(facts, "The bell is cracked. Who rang it? The key.").passed


def test_a_fact_may_be_written_as_xml_writes_it() -> None:
    facts = {"canon locks": ["Mara's rule: salt & rope < gold"]}

    assert remembered_figure(facts, "Mara&#x27;s rule: salt &amp; rope &lt; gold").passed


def test_a_memory_that_holds_nothing_proves_nothing() -> None:
    assert remembered_figure({"canon locks": [], "open threads": []}, "A prompt.").passed is False
