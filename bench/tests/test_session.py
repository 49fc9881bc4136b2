"""Tests that the figures of a played session miss what is wrong with it."""

from collections.abc import Callable
from typing import Any

import pytest

from bench.harness import Figure
from bench.session.figures import session_figures
from bench.session.play import PROBE_MODEL, PlayedSession, PromptTiming
from bench.session.prompts import LEAST_CACHED, cached_starts, prompt_figures, remembered_figure
from testing.session_data import synthetic_session

SESSION = synthetic_session(14)


def played_session() -> PlayedSession:
    events = []
    for number, pair in enumerate(SESSION.pairs, 1):
        events.append({"prompt_index": number, "role": "user", "text": pair.beat})
        events.append({"prompt_index": number, "role": "agent", "text": pair.reply})
    blocks = [
        {"type": "world_chapter_lock", "from_prompt_index": 0, "to_prompt_index": 0},
        {"type": "turn_delta", "from_prompt_index": 1, "to_prompt_index": 7},
        {"type": "turn_delta", "from_prompt_index": 8, "to_prompt_index": 14},
    ]
    timings = [
        PromptTiming(number, 0.4, *((None, None) if number % 2 else (0.205, 0.2)))
        for number in range(1, 15)
    ]
    drafts = [{"chapter_text": "word " * 5_000}]
    chapter = {"events": events, "memory_blocks": blocks, "narrative_drafts": drafts}
    return PlayedSession(SESSION, timings, [True], chapter)


def figures(played: PlayedSession) -> list[Figure]:
    character = {"agent": 2, "model": "agent-2", "prompt": "x" * 10_000}
    probe = {"agent": 1, "model": PROBE_MODEL, "prompt": "Is anybody there?"}
    summary = {"agent": 8, "model": "agent-8", "prompt": "x" * 20_000}
    return session_figures(played, [*[character] * 14, *[probe] * 7, *[summary] * 2])


def missed(played: PlayedSession) -> list[str]:
    return [one.name.partition(",")[0] for one in figures(played) if one.passed is False]


def measured(name: str) -> float:
    return next(f.measured for f in figures(played_session()) if f.name.startswith(name))


def test_a_run_that_meets_every_target_misses_none() -> None:
    assert missed(played_session()) == []
    # The run's own calls are no cost of the program.
    assert measured("Model calls") == pytest.approx(16 / 14)
    assert measured("Characters sent") == 140_000
    assert measured("Time to the first token") == pytest.approx(5.0)


def change_a_reply(played: PlayedSession) -> None:
    played.chapter["events"][5]["text"] += "x"


def store_too_much(played: PlayedSession) -> None:
    played.chapter["events"].append({"prompt_index": 3, "role": "system", "text": "?"})


def overlap(played: PlayedSession) -> None:
    played.chapter["memory_blocks"][2]["from_prompt_index"] = 7


def leave_a_gap(played: PlayedSession) -> None:
    played.chapter["memory_blocks"][2]["from_prompt_index"] = 9


def write_little(played: PlayedSession) -> None:
    played.chapter["narrative_drafts"][-1]["chapter_text"] = "word " * 2_000


def store_late(played: PlayedSession) -> None:
    played.stored_first = [True, False]


def be_slow(played: PlayedSession) -> None:
    played.timings = [
        PromptTiming(one.prompt_index, 0.4 if one.prompt_index % 7 else 1.6, 0.2, 0.2)
        for one in played.timings
    ]


@pytest.mark.parametrize(
    ("spoil", "name"),
    [
        (change_a_reply, "Prompts and replies stored word for word"),
        (store_too_much, "Prompts and replies stored word for word"),
        (overlap, "Memory deltas"),
        (leave_a_gap, "Memory deltas"),
        (write_little, "Words of the chapter"),
        (store_late, "Prompt stored before its first token"),
        (be_slow, "Median latency of every seventh prompt over that of the others"),
    ],
)
def test_what_is_wrong_is_missed(spoil: Callable[[PlayedSession], Any], name: str) -> None:
    played = played_session()
    spoil(played)
    assert missed(played) == [name]


def test_sizes_have_targets_for_the_session_that_they_are_for() -> None:
    small = ["x" * 10_000] * 84
    assert {f.passed for f in prompt_figures(small, pairs=84)[:3]} == {True}
    assert {f.passed for f in prompt_figures(small, pairs=14)} == {None}
    changing = [str(number) * 20_000 for number in range(10, 94)]
    assert {f.passed for f in prompt_figures(changing, pairs=84)[:3]} == {False}


def test_a_repeated_start_costs_a_tenth_unless_it_is_short() -> None:
    start = "x" * LEAST_CACHED
    prompts = [start + "a", start[1:] + "b", "y" + start, start + "c"]
    assert cached_starts(prompts) == [0, 0, 0, LEAST_CACHED]
    _, share, cost, _ = prompt_figures(["x" * 10_000, "x" * 9_000 + "y" * 1_000], pairs=2)
    assert share.measured == pytest.approx(0.45)
    assert cost.measured == pytest.approx(11_000 + 900)


def test_memory_is_looked_for_in_the_last_prompt() -> None:
    facts = {"canon locks": ["Salt & rope < gold"], "open threads": ["who rang  it?", "the key"]}
    figure = remembered_figure(facts, "<c>salt &amp;\nrope &lt; gold</c> Who rang it?")
    assert figure.value.startswith("1 of 1 canon locks, 1 of 2 open threads")
    assert figure.passed is False
    assert remembered_figure(facts, "Salt & rope < gold. Who rang it? The key.").passed
    # A memory that has nothing proves nothing.
    assert remembered_figure({"canon locks": []}, "A prompt.").passed is False
