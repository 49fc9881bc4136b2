"""Fitting a prompt into a window: order kept, floors kept, never over the budget."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.budget import (
    TOKENS_PER_MESSAGE,
    calibrate,
    input_budget,
    output_limit,
    read_weight_per_token,
    weigh,
)
from agents.capabilities import facts_of
from agents.declarations import AGENTS, CHARACTERS, NARRATOR
from agents.exceptions import PromptTooLong
from agents.layers import Layer, Piece, Trim, assemble, keep_last, text_layer
from agents.model_access import model_name
from agents.providers.base import Usage


def pieces(count: int, size: int = 100, brief: int = 0) -> tuple[Piece, ...]:
    return tuple(Piece(str(n) * size, str(n) * brief) for n in range(1, count + 1))


def test_layers_keep_their_order_and_neighbours_of_one_role_are_one_message() -> None:
    prompt = assemble(
        [
            text_layer("SYSTEM", "Rules.", role="system", has_heading=False),
            text_layer("ONE", "first"),
            text_layer("TWO", "second"),
        ],
        budget_tokens=1_000,
        weight_per_token=3,
    )
    assert [(m.role, m.content) for m in prompt.messages] == [
        ("system", "Rules."),
        ("user", "## ONE\nfirst\n\n## TWO\nsecond"),
    ]


def test_the_oldest_pieces_go_first_and_the_newest_stay() -> None:
    history = Layer("H", keep_last(pieces(9), 2), trim=Trim.OLDEST_FIRST)
    prompt = assemble([history, text_layer("M", "now")], budget_tokens=200, weight_per_token=2)
    content = prompt.messages[0].content
    assert "1" * 100 not in content
    assert "9" * 100 in content
    assert prompt.records[0].dropped > 0


def test_condensing_shortens_before_it_drops_and_spares_the_first() -> None:
    first, *others = keep_last(pieces(9, brief=10), 1)
    memory = Layer("M", (replace(first, must_stay=True), *others), trim=Trim.CONDENSE)
    prompt = assemble([memory], budget_tokens=250, weight_per_token=2)
    record = prompt.records[0]
    assert record.shortened > 0
    assert record.dropped == 0
    assert "1" * 100 in prompt.messages[0].content
    assert "9" * 100 in prompt.messages[0].content


def test_a_share_holds_whatever_else_there_is() -> None:
    memory = Layer("M", keep_last(pieces(9), 1), trim=Trim.CONDENSE, share=0.2)
    prompt = assemble([memory], budget_tokens=1_000, weight_per_token=1)
    assert weigh(prompt.messages[0].content) <= 200


def test_when_the_floors_do_not_fit_the_gm_is_told_which_part_is_too_long() -> None:
    layers = [text_layer("AGENT_IDENTITY", "x" * 900), text_layer("USER_PROMPT", "go")]
    with pytest.raises(PromptTooLong, match="AGENT_IDENTITY"):
        assemble(layers, budget_tokens=100, weight_per_token=1)


@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=30),
    budget=st.integers(150, 4_000),
    trim=st.sampled_from([Trim.OLDEST_FIRST, Trim.CONDENSE]),
    step=st.integers(1, 4),
)
def test_a_prompt_never_exceeds_its_budget(
    sizes: list[int], budget: int, trim: Trim, step: int
) -> None:
    layers = [
        text_layer("SYSTEM", "Rules.", role="system"),
        Layer("H", keep_last([Piece("x" * size, "x") for size in sizes], 1), trim=trim, step=step),
        text_layer("USER_PROMPT", "Go."),
    ]
    try:
        prompt = assemble(layers, budget_tokens=budget, weight_per_token=2)
    except PromptTooLong:
        assert sizes[-1] / 2 > budget - 100
        return
    weight = sum(weigh(message.content) for message in prompt.messages)
    assert weight / 2 + TOKENS_PER_MESSAGE * len(prompt.messages) <= budget + 4
    assert prompt.messages[-1].content.endswith("Go.")


def test_a_piece_that_must_stay_is_neither_shortened_nor_dropped() -> None:
    blocks = tuple(Piece(f"{at} " * 60, "brief", must_stay=at in (0, 2)) for at in range(4))
    layer = Layer("MEMORY", blocks, trim=Trim.CONDENSE)
    # Two blocks with their heading are 252 characters.
    room = TOKENS_PER_MESSAGE + 127
    prompt = assemble([layer], budget_tokens=room, weight_per_token=2.0)
    (message,) = prompt.messages
    assert blocks[0].text in message.content
    assert blocks[2].text in message.content
    assert "brief" not in message.content
    (record,) = prompt.records
    assert (record.kept, record.shortened, record.dropped) == (2, 0, 2)


@pytest.mark.django_db
def test_estimates_follow_what_a_model_reports() -> None:
    for _ in range(5):
        calibrate("m", 1, 4_200, Usage(1_000, 1))
    assert read_weight_per_token("m", 1) == pytest.approx(4.2, rel=0.05)


@pytest.mark.django_db
def test_an_agent_s_prompts_are_estimated_by_its_own_calls_once_there_are_any() -> None:
    calibrate("m", 1, 4_200, Usage(1_000, 1))
    assert read_weight_per_token("m", 8) == pytest.approx(4.2)
    calibrate("m", 8, 2_500, Usage(1_000, 1))
    assert read_weight_per_token("m", 8) == pytest.approx(2.5)
    assert read_weight_per_token("m", 1) == pytest.approx(4.2)


def test_dense_scripts_and_emoji_weigh_more_than_english() -> None:
    assert weigh("word") < weigh("\u8a9e\u8a9e\u8a9e\u8a9e") < weigh("\N{GRINNING FACE}" * 4)


def test_each_agent_has_its_default_model_and_the_environment_s_choice(
    settings: pytest.FixtureRequest,
) -> None:
    settings.LLM, settings.MODEL = "openai", ""  # type: ignore[attr-defined]
    settings.MODEL_BY_AGENT = dict.fromkeys(range(10), "")  # type: ignore[attr-defined]
    assert [model_name(n) for n in range(10)] == ["o4-mini"] * 9 + ["gpt-5.2"]
    settings.MODEL = "local"  # type: ignore[attr-defined]
    settings.MODEL_BY_AGENT[9] = "writer"  # type: ignore[attr-defined]
    assert (model_name(8), model_name(9)) == ("local", "writer")


def test_reasoning_models_get_room_to_think_and_no_temperature() -> None:
    facts = facts_of("openai/o4-mini")
    assert facts.token_parameter == "max_completion_tokens"
    assert not facts.accepts_temperature
    assert output_limit(CHARACTERS[1], facts) > CHARACTERS[1].output_tokens


def test_unknown_models_take_the_environment_s_figures(settings: pytest.FixtureRequest) -> None:
    settings.CONTEXT_WINDOW, settings.MAX_OUTPUT = 128_000, 16_000  # type: ignore[attr-defined]
    facts = facts_of("agent-9")
    assert (facts.context_window, facts.max_output) == (128_000, 16_000)
    assert facts_of("gpt-5.2").context_window == 400_000


@pytest.mark.parametrize("agent", AGENTS.values())
@pytest.mark.parametrize("model", ["o4-mini", "gpt-5.2", "gpt-4o", "unknown", "embedded:x"])
def test_output_and_input_fit_the_window_together(agent: object, model: str) -> None:
    facts = facts_of(model)
    limit = output_limit(NARRATOR, facts)
    assert limit + input_budget(facts, limit) < facts.context_window
