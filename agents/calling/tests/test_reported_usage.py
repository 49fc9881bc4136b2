"""The engine uses a server's counts of tokens only if the counts can be true."""

from dataclasses import replace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from hypothesis import given
from hypothesis import strategies as st

from agents.calling.model_access import substitute_provider
from agents.calling.prepared_calls import believed, possible_tokens
from agents.calling.spending import check_budget, spending_of
from agents.flows.replies.turns import start_prompt
from agents.flows.tests.playing import reply_is_over
from agents.llm.providers.base import Message, ModelRequest, Usage
from agents.llm.providers.tests.chat_server import Answer, chat_server, says
from agents.models import LLMArtifact, TokenCalibration
from agents.prompting.layers import weigh
from agents.tests.calling import provider_at
from sessions.models import Attempt, Session
from sessions.tests.factories import make_active_chapter

REQUEST = ModelRequest("m", (Message("user", "The door opens."),), max_output_tokens=1_000)
WEIGHT, WINDOW = 4_000.0, 100_000
# Counts that a server may report for a short prompt and a short answer, although they cannot be
# true.
LIES: dict[str, dict[str, Any]] = {
    "all of 64 bits read": {"prompt_tokens": 2**64 - 1, "completion_tokens": 1},
    "all of 64 bits written": {"prompt_tokens": 1, "completion_tokens": 2**64 - 1},
    "400 digits read": {"prompt_tokens": 10**400, "completion_tokens": 1},
    "400 digits written": {"prompt_tokens": 1, "completion_tokens": 10**400},
    "more than was sent": {"prompt_tokens": 50_000, "completion_tokens": 1},
    "more than was allowed": {"prompt_tokens": 1, "completion_tokens": 50_000},
    "no number": {"prompt_tokens": True, "completion_tokens": True},
    "less than none": {"prompt_tokens": -(2**64), "completion_tokens": 1},
    "nothing": {"prompt_tokens": 0, "completion_tokens": 0},
    "only what is new": {"prompt_tokens": 11, "completion_tokens": 3},
    "a text": {"prompt_tokens": "400", "completion_tokens": "3"},
    "a fraction": {"prompt_tokens": 400.5, "completion_tokens": 3.0},
}


def read(
    usage: Usage, request: ModelRequest = REQUEST, window: int | None = WINDOW
) -> Usage | None:
    return believed(usage, possible_tokens(request, weight=WEIGHT, window=window))


@pytest.mark.parametrize(
    "usage",
    [
        Usage(1, 0),
        Usage(1_000, 300, 1_000),
        # Each byte of the prompt is one token, and the model's template adds 500 tokens.
        Usage(4_500, 1_000),
        # A server that checks its limit only every few tokens may exceed the limit.
        Usage(1_000, 1_020),
    ],
)
def test_what_can_be_true_is_believed(usage: Usage) -> None:
    assert read(usage) == usage


@pytest.mark.parametrize(
    "usage",
    [
        Usage(6_000, 1),
        Usage(1, 1_500),
        Usage(2**64 - 1, 1),
        Usage(1, 10**400),
        Usage(-1, 1),
        Usage(1, -1),
        Usage(0, 1),
    ],
)
def test_what_cannot_is_no_report(usage: Usage) -> None:
    assert read(usage) is None


@pytest.mark.parametrize(
    ("text", "least"), [("word " * 900, 450), ("\u8a9e" * 900, 112), ("word\n" * 9, 4), ("", 0)]
)
def test_a_server_that_counts_only_what_is_new_reports_nothing(text: str, least: int) -> None:
    request = replace(REQUEST, messages=(Message("user", text),))
    assert read(Usage(least, 1), request)
    assert read(Usage(least - 1, 1), request) is None


@given(st.text())
def test_no_text_weighs_less_than_its_bytes(text: str) -> None:
    """No tokenizer makes more tokens than a text has bytes, so the weight is an upper bound of the
    tokens."""
    assert weigh(text) >= len(text.encode())


@pytest.mark.django_db
@pytest.mark.usefixtures("calls_allowed")
class TestAReply:
    @pytest.fixture(autouse=True)
    def _model(self, settings: Any) -> None:
        settings.LLM, settings.MODEL = "openai", "nobody-knows"
        settings.MODEL_BY_AGENT = {}

    @pytest.fixture
    def chapter(self) -> Session:
        return make_active_chapter()

    def play(self, chapter: Session, *answers: Answer, beat: str = "Go.") -> None:
        async def run() -> None:
            async with chat_server(*answers) as server:
                with substitute_provider(provider_at(server.base_url)):
                    for number in range(len(answers)):
                        opened = await start_prompt(
                            chapter.pk, actor=1, words=beat, submission_key=str(number)
                        )
                        await reply_is_over(opened.attempt.pk)

        async_to_sync(run)()
        assert {attempt.status for attempt in chapter.attempts.all()} == {Attempt.Status.COMMITTED}

    @pytest.mark.parametrize("usage", LIES.values(), ids=LIES)
    def test_a_lie_counts_as_no_report(
        self,
        chapter: Session,
        settings: Any,
        caplog: pytest.LogCaptureFixture,
        usage: dict[str, Any],
    ) -> None:
        settings.CHAPTER_TOKENS = 10_000
        self.play(chapter, *[says("I step ", "in.", usage=usage)] * 2)
        for call in LLMArtifact.objects.all():
            is_partial = usage == LIES["only what is new"]
            assert call.token_counts == ({"too_few": 11} if is_partial else {})
            assert call.estimated_input == sum(layer["tokens"] for layer in call.layers) > 0
            assert call.estimated_output > 0
        spent = spending_of(chapter.pk)
        assert 0 < spent.tokens == spent.estimated_tokens < 5_000
        check_budget(chapter.pk)
        assert not TokenCalibration.objects.exists()
        calls = [record for record in caplog.records if record.getMessage() == "model call"]
        assert len(calls) == 2
        assert not any("output" in vars(call)["fields"] for call in calls)

    @pytest.mark.parametrize("usage", [None, {"prompt_tokens": 1, "completion_tokens": 50_000}])
    def test_no_estimate_is_above_what_the_call_can_have_cost(
        self, chapter: Session, settings: Any, usage: dict[str, Any] | None
    ) -> None:
        settings.MAX_OUTPUT = 400
        # The answer is longer than the request allows, but too short for the engine to cut it.
        self.play(chapter, says("I step in. " * 1_500, usage=usage))
        call = LLMArtifact.objects.get()
        assert call.token_counts == {}
        assert call.estimated_output == 400 * 1.25 + 64

    def test_the_truth_is_kept(self, chapter: Session) -> None:
        details = {"prompt_tokens_details": {"cached_tokens": 20}}
        self.play(
            chapter, says("Yes.", usage={"prompt_tokens": 900, "completion_tokens": 2} | details)
        )
        call = LLMArtifact.objects.get()
        assert call.token_counts == {"input": 900, "output": 2, "cached": 20}
        assert (call.estimated_input, call.estimated_output) == (0, 0)
        assert TokenCalibration.objects.get().tokens == 900


@pytest.mark.parametrize("cached", [1_001, -1, 2**64 - 1])
def test_what_cannot_come_from_a_cache_leaves_the_rest_of_the_report(cached: int) -> None:
    assert read(Usage(1_000, 300, cached)) == Usage(1_000, 300)


def test_a_prompt_costs_no_more_than_a_window_that_was_told() -> None:
    assert read(Usage(2_000, 1), window=2_000)
    assert read(Usage(2_001, 1), window=2_000) is None
    assert read(Usage(5_000, 1), window=None)
    assert read(Usage(5_001, 1), window=None) is None
