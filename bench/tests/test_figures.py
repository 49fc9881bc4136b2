from dataclasses import replace
from typing import Any

import pytest

from bench.figure import Figure
from bench.figures import character_prompts, page_figures, session_figures
from bench.replay import PROBE_MODEL, PlayedSession, PromptTiming
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
        PromptTiming(
            number,
            latency=0.4,
            first_token=None if number % 2 else 0.205,
            model_first_token=None if number % 2 else 0.2,
            relay_first_token=None if number % 2 else 0.204,
        )
        for number in range(1, 15)
    ]
    chapter = {
        "events": events,
        "memory_blocks": blocks,
        "narrative_drafts": [{"chapter_text": "word " * 5_000}],
    }
    return PlayedSession(SESSION, timings, [True], chapter)


def model_calls() -> list[dict[str, Any]]:
    character = {"agent": 2, "model": "agent-2", "prompt": "x" * 10_000}
    probe = {"agent": 1, "model": PROBE_MODEL, "prompt": "Is anybody there?"}
    summary = {"agent": 8, "model": "agent-8", "prompt": "x" * 20_000}
    return [*[character] * 14, *[probe] * 7, *[summary] * 2]


def missed(played: PlayedSession, calls: list[dict[str, Any]]) -> list[str]:
    return [f.name for f in session_figures(played, calls) if f.passed is False]


def figure(name: str, played: PlayedSession) -> Figure:
    return next(f for f in session_figures(played, model_calls()) if f.name.startswith(name))


def test_a_run_that_meets_every_target_misses_none() -> None:
    assert missed(played_session(), model_calls()) == []


def test_a_reply_that_differs_by_one_letter_is_missed() -> None:
    played = played_session()
    played.chapter["events"][5]["text"] += "x"

    assert missed(played, model_calls()) == ["Prompts and replies stored word for word"]


@pytest.mark.parametrize("span", [(7, 14), (9, 14), (8, 13)])
def test_deltas_that_overlap_or_leave_a_gap_are_missed(span: tuple[int, int]) -> None:
    played = played_session()
    block = played.chapter["memory_blocks"][2]
    block["from_prompt_index"], block["to_prompt_index"] = span

    assert missed(played, model_calls()) == ["Memory deltas, and the prompts they cover"]


def test_a_short_chapter_is_missed() -> None:
    played = played_session()
    played.chapter["narrative_drafts"][-1]["chapter_text"] = "word " * 2_000

    assert missed(played, model_calls()) == ["Words of the chapter"]


def test_only_a_recorded_session_has_targets_for_the_sizes_of_requests() -> None:
    made_up = played_session()
    made_up.session = synthetic_session(84)
    assert made_up.session.first(84).is_made_up
    assert figure("Characters sent", made_up).passed is None
    recorded = played_session()
    recorded.session = replace(made_up.session, is_made_up=False)
    assert figure("Characters sent", recorded).passed is True


def test_only_character_prompts_count_as_characters_sent() -> None:
    assert figure("Characters sent", played_session()).measured == 140_000
    assert len(character_prompts(model_calls())) == 14


def test_slow_seventh_prompts_are_missed() -> None:
    played = played_session()
    played.timings = [
        PromptTiming(t.prompt_index, 1.6 if t.prompt_index % 7 == 0 else 0.4, 0.2, 0.2, 0.2)
        for t in played.timings
    ]

    assert figure("Median latency", played).measured == pytest.approx(4.0)
    assert missed(played, model_calls()) == [
        "Median latency of every seventh prompt over that of the others"
    ]


def test_a_disturbed_latency_does_not_count() -> None:
    played = played_session()
    played.timings.append(PromptTiming(21, 99.0, is_disturbed=True))

    assert figure("Median latency", played).measured == pytest.approx(1.0)


def test_the_benchmarks_own_calls_are_no_cost_of_the_program() -> None:
    assert figure("Model calls", played_session()).measured == pytest.approx(16 / 14)


def test_the_first_token_is_a_difference_of_medians() -> None:
    assert figure("Time to the first token", played_session()).measured == pytest.approx(5.0)


def test_beside_it_stands_what_a_bare_relay_adds() -> None:
    relayed = figure("- that a bare Django relay", played_session())
    assert relayed.measured == pytest.approx(4.0)
    assert relayed.passed is None


def test_a_prompt_that_was_not_stored_first_is_missed() -> None:
    played = played_session()
    played.stored_first = [True, False]

    assert missed(played, model_calls()) == ["Prompt stored before its first token arrived"]


def test_queries_that_grow_with_the_events_are_missed() -> None:
    times, queries = page_figures({100: [0.02], 1_000: [0.06]}, {100: 9, 1_000: 12})

    assert times.passed is False
    assert queries.passed is False
    assert page_figures({100: [0.02]}, {100: 9})[0].passed
