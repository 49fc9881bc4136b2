"""A prompt that is fitted into a window keeps the order of its layers, and never exceeds the
budget."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.calling.model_access import model_of
from agents.exceptions import PromptTooLong
from agents.llm.facts.model_facts import facts_of
from agents.llm.providers.base import Usage
from agents.models import TokenCalibration
from agents.prompting import budget
from agents.prompting.budget import (
    TOKENS_PER_MESSAGE,
    calibrate,
    input_budget,
    output_limit,
    read_weight_per_token,
)
from agents.prompting.declarations import NARRATOR
from agents.prompting.fitting import assemble
from agents.prompting.layers import Layer, Piece, Trim, keep_last, text_layer, weigh
from agents.tests.declared import AGENTS, CHARACTERS


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
    assert prompt.layers[0].dropped > 0


def test_condensing_shortens_before_it_drops_and_spares_the_first() -> None:
    first, *others = keep_last(pieces(9, brief=10), 1)
    memory = Layer("M", (replace(first, must_stay=True), *others), trim=Trim.CONDENSE)
    prompt = assemble([memory], budget_tokens=250, weight_per_token=2)
    record = prompt.layers[0]
    assert record.shortened > 0
    assert record.dropped == 0
    assert "1" * 100 in prompt.messages[0].content
    assert "9" * 100 in prompt.messages[0].content


def test_a_limit_in_tokens_holds_whatever_room_there_is() -> None:
    memory = Layer("M", keep_last(pieces(9), 1), trim=Trim.CONDENSE, most_tokens=200)
    prompt = assemble([memory], budget_tokens=1_000, weight_per_token=2)
    [sent] = prompt.layers
    assert weigh(prompt.messages[0].content) <= 400
    assert (sent.kept, sent.reason) == (3, "its limit is full")
    within = assemble([replace(memory, most_tokens=800)], budget_tokens=1_000, weight_per_token=2)
    assert within.layers[0].kept == 9


def test_a_layer_gives_way_to_what_it_holds_before_the_next_gives_way_too() -> None:
    first = Layer("M", pieces(9), trim=Trim.OLDEST_FIRST, holds=0.5)
    second = Layer("H", pieces(9), trim=Trim.OLDEST_FIRST, gives_way=1)

    def sent(budget: int) -> list[int]:
        layers = assemble([first, second], budget_tokens=budget, weight_per_token=1).layers
        return [layer.kept for layer in layers]

    assert sent(2_000) == [9, 9]
    assert sent(1_800) == [8, 9]
    assert sent(1_700) == [8, 8]
    assert sent(1_000) == [4, 5]


def test_a_layer_with_a_grain_changes_seldom() -> None:
    memory = Layer("M", pieces(9) * 3, trim=Trim.OLDEST_FIRST, separator="", grain=0.25)

    def kept(used: int) -> int:
        layers = [memory, text_layer("U", "x" * used)]
        return assemble(layers, budget_tokens=2_000, weight_per_token=1).layers[0].kept

    # The layer has 2,700 characters, and what is dropped is a multiple of 500.
    assert [kept(used) for used in (0, 200, 400, 600)] == [17, 17, 12, 12]


def test_a_heading_goes_with_the_last_piece_that_it_heads() -> None:
    first, second, third, fourth = pieces(4)
    blocks = [Piece("first block", heads=2), first, second, Piece("second block", heads=2)]
    memory = Layer("M", (*blocks, third, fourth), trim=Trim.OLDEST_FIRST, separator="\n")

    def told(most_tokens: int) -> list[str]:
        limited = replace(memory, most_tokens=most_tokens)
        [sent] = assemble([limited], budget_tokens=1_000, weight_per_token=1).layers
        return [part[:12] for part in sent.parts]

    assert told(400) == ["first block", second.text[:12], "second block", *told(250)[1:]]
    assert told(250) == ["second block", third.text[:12], fourth.text[:12]]


def test_the_record_names_what_was_left_out_by_block_and_place() -> None:
    names = [("Prompts 1-7", "event 1"), ("Prompts 1-7", "event 2"), ("Prompts 8-14", "deed 1")]
    told = [
        replace(piece, block=block, place=place)
        for piece, (block, place) in zip(pieces(3), names, strict=True)
    ]
    beats = [replace(piece, block=f"Prompt {at}") for at, piece in enumerate(pieces(2), 15)]
    memory = Layer("M", (*told, *pieces(1)), trim=Trim.OLDEST_FIRST, most_tokens=110)
    context = Layer("H", tuple(beats), trim=Trim.OLDEST_FIRST, most_tokens=110)
    sent = assemble([memory, context], budget_tokens=1_000, weight_per_token=1).layers
    assert [layer.left_out for layer in sent] == [
        ("Prompts 1-7: event 1, event 2", "Prompts 8-14: deed 1"),
        ("Prompt 15",),
    ]


class TestTooLong:
    """A prompt that is too long is refused. The refusal names the text that the GM has to shorten.

    In these tests each letter of a text is one token.
    """

    def refusal(self, *, room: int, **sizes: int) -> str:
        """Return the refusal of layers with texts of these sizes, if `room` tokens are left for the
        texts."""
        parts = [text_layer(name, "x" * size, has_heading=False) for name, size in sizes.items()]
        budget = room + TOKENS_PER_MESSAGE * len(parts)
        with pytest.raises(PromptTooLong) as refused:
            assemble(parts, budget_tokens=budget, weight_per_token=1)
        assert "Nothing was sent" in str(refused.value)
        return str(refused.value)

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("WORLD_TEXT", "the world text on Tab 1"),
            ("CHAPTER_TEXT", "the chapter text on Tab 1"),
            ("AGENT_IDENTITY", "the identity on Tab 1"),
            ("USER_PROMPT", "your prompt"),
            ("NARRATIVE_AGENT_DEFINITION", "the narrative agent's instructions on Tab 3"),
        ],
    )
    def test_a_part_is_named_in_the_gm_s_words_and_by_how_much_it_is_too_long(
        self, name: str, words: str
    ) -> None:
        said = self.refusal(room=1_000, **{"SYSTEM": 500, name: 1_600})
        assert "about 1,100 tokens too long" in said
        assert f"Shorten {words} (about 1,600 tokens) by so much" in said

    def test_the_longest_of_those_that_the_gm_can_shorten_is_named(self) -> None:
        said = self.refusal(room=900, WORLD_TEXT=400, CHAPTER_TEXT=600)
        assert "Shorten the chapter text on Tab 1 (about 600 tokens) by so much" in said

    def test_an_identity_which_is_locked_by_then_is_named_only_when_the_prompt_is_too_short(
        self,
    ) -> None:
        said = self.refusal(room=1_000, AGENT_IDENTITY=900, USER_PROMPT=300)
        assert "Shorten your prompt (about 300 tokens) by so much" in said
        said = self.refusal(room=800, AGENT_IDENTITY=900, USER_PROMPT=300)
        assert "Shorten the identity on Tab 1 (about 900 tokens) by so much" in said


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


@pytest.mark.django_db
def test_estimates_follow_what_a_model_reports() -> None:
    for _ in range(5):
        calibrate("m", "character", 4_200, Usage(1_000, 1))
    assert read_weight_per_token("m", "character") == pytest.approx(4.2, rel=0.05)


@pytest.mark.django_db
def test_an_agent_s_prompts_are_estimated_by_its_own_calls_once_there_are_any() -> None:
    calibrate("m", "character", 4_200, Usage(1_000, 1))
    assert read_weight_per_token("m", "memory") == pytest.approx(4.2)
    calibrate("m", "memory", 2_500, Usage(1_000, 1))
    assert read_weight_per_token("m", "memory") == pytest.approx(2.5)
    assert read_weight_per_token("m", "character") == pytest.approx(4.2)


@pytest.mark.django_db
class TestReportsOfTooFewTokens:
    """A server that counts only what it has not read before, or the window that it cut a request
    to, changes no estimate."""

    @pytest.fixture(autouse=True)
    def _known(self) -> None:
        for _ in range(3):
            calibrate("m", "character", 40_000, Usage(10_000, 1))

    def estimate(self) -> float:
        return read_weight_per_token("m", "character")

    @pytest.mark.parametrize("tokens", [0, 1, 11, 3_000])
    def test_tokens_that_no_text_can_have(self, tokens: int) -> None:
        for _ in range(9):
            calibrate("m", "character", 40_000, Usage(tokens, 1))
        assert self.estimate() == pytest.approx(4.0)

    @pytest.mark.parametrize("weight", [36_000, 40_000, 48_000])
    def test_a_window(self, weight: int) -> None:
        for _ in range(9):
            calibrate("m", "character", weight, Usage(8_192, 1))
        assert self.estimate() == pytest.approx(4.0)

    def test_reports_that_agree_are_believed_because_the_texts_have_changed(self) -> None:
        for weight in (60_000, 63_000, 66_000):
            calibrate("m", "character", weight, Usage(weight // 6, 1))
        assert self.estimate() == pytest.approx(6.0)

    @pytest.mark.parametrize("tokens", [20.0, 5_000.0])
    def test_an_estimate_that_was_spoilt_before_is_given_up(self, tokens: float) -> None:
        budget._weight_per_token.clear()
        TokenCalibration.objects.update(weight=40_000.0, tokens=tokens)
        TokenCalibration.objects.create(model="m", agent="memory", weight=40_000.0, tokens=9.0)
        calibrate("m", "character", 41_000, Usage(10_000, 1))
        assert self.estimate() == pytest.approx(4.1)
        assert read_weight_per_token("m", "memory") == pytest.approx(4.1)


def test_each_agent_has_its_default_model_and_the_environment_s_choice(
    settings: pytest.FixtureRequest,
) -> None:
    settings.LLM, settings.MODEL = "openai", ""  # type: ignore[attr-defined]
    settings.MODEL_BY_AGENT = {}  # type: ignore[attr-defined]
    assert [model_of(AGENTS[n]).name for n in range(10)] == ["o4-mini"] * 9 + ["gpt-5.2"]
    settings.MODEL = "local"  # type: ignore[attr-defined]
    settings.MODEL_BY_AGENT["AGENT_9"] = "writer"  # type: ignore[attr-defined]
    assert (model_of(AGENTS[8]).name, model_of(AGENTS[9]).name) == ("local", "writer")


def test_reasoning_models_get_room_to_think_and_no_temperature() -> None:
    facts = facts_of("openai/o4-mini")
    assert facts.token_parameter == "max_completion_tokens"
    assert not facts.accepts_temperature
    assert output_limit(CHARACTERS[1], facts) > CHARACTERS[1].output_tokens


@pytest.mark.parametrize("agent", AGENTS.values())
@pytest.mark.parametrize("model", ["o4-mini", "gpt-5.2", "gpt-4o", "unknown", "embedded:x"])
def test_output_and_input_fit_the_window_together(agent: object, model: str) -> None:
    facts = facts_of(model)
    limit = output_limit(NARRATOR, facts)
    assert limit + input_budget(facts, limit) < facts.context_window
