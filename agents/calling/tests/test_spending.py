"""Tests of what calls cost, and of the caps on the spending of a chapter."""

import asyncio
import math
from collections.abc import AsyncGenerator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from pytest_django import DjangoAssertNumQueries

from agents.calling.spending import Spending, check_budget, spending_of, uncapped_models
from agents.exceptions import BudgetSpent
from agents.flows.replies.turns import start_prompt, stop_reply
from agents.flows.tests.playing import play, reply_is_over
from agents.llm.facts.hosted_models import Price
from agents.llm.facts.prices import price_of
from agents.llm.providers.base import Finished, ModelRequest, StreamPart
from agents.llm.providers.failures.call_errors import (
    ProviderBusy,
    ProviderError,
    ProviderRefused,
    ProviderUnreachable,
    StreamBroken,
)
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import LLMArtifact
from agents.prompting.budget import DEFAULT_WEIGHT_PER_TOKEN
from agents.prompting.layers import weigh
from agents.running.live import LIVE_REPLIES
from agents.tests.recorded_calls import add_call
from sessions.models import Attempt, Session
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


@pytest.fixture(autouse=True)
def _openai(settings: Any) -> None:
    settings.OPENAI_BASE_URL = "https://api.openai.com/v1"


def spending(chapter: Session) -> Spending:
    return spending_of(chapter.pk)


def test_cached_tokens_have_a_price_of_their_own() -> None:
    price = Price(Decimal(2), Decimal(8), Decimal("0.5"))
    counts = {"input": 1_000_000, "cached": 400_000, "output": 100_000}
    assert price.of(counts) == Decimal("1.2") + Decimal("0.2") + Decimal("0.8")


def test_a_file_of_ones_own_sets_the_price(tmp_path: Path, settings: Any) -> None:
    file = tmp_path / "models.toml"
    file.write_text('[[model]]\npattern = "mine"\ninput_price = 1\noutput_price = 2\n')
    settings.MODELS_FILE = str(file)
    assert price_of("mine") == Price(Decimal(1), Decimal(2), Decimal(1))


def test_the_embedded_model_is_free_and_an_unknown_one_is_not_guessed() -> None:
    assert price_of("embedded:smollm2-135m") == Price(Decimal(0), Decimal(0), Decimal(0))
    assert price_of("nobody-knows") is None


def test_spending_is_summed_by_model(chapter: Session) -> None:
    add_call(chapter, "o4-mini", input=1_000_000, output=0, cached=0)
    add_call(chapter, "o4-mini", input=0, output=1_000_000, cached=0)
    add_call(chapter, "nobody-knows", input=7, output=3, cached=0)
    add_call(chapter, "o4-mini")
    add_call(make_active_chapter(), "o4-mini", input=1_000_000, output=0, cached=0)
    price = price_of("o4-mini")
    assert price is not None
    assert spending(chapter) == Spending(2_000_010, price.input + price.output, 10)


def test_a_chapter_stops_at_its_budget_and_goes_on_when_it_is_raised(
    chapter: Session, settings: Any, provider: ScriptedProvider
) -> None:
    settings.CHAPTER_BUDGET = Decimal(1)
    add_call(chapter, "o4-mini", input=1_000_000, output=0, cached=0)
    attempt = play(chapter, key="one")
    assert attempt.status == Attempt.Status.FAILED
    assert "$1.10 of the $1.00" in attempt.error
    assert not provider.history
    settings.CHAPTER_BUDGET = Decimal(2)
    assert play(chapter, key="one").status == Attempt.Status.COMMITTED


def test_tokens_cap_the_models_without_a_price(chapter: Session, settings: Any) -> None:
    settings.CHAPTER_TOKENS = 1_000
    add_call(chapter, "o4-mini", input=5_000, output=0, cached=0)
    check_budget(chapter.pk)
    add_call(chapter, "nobody-knows", input=900, output=100, cached=0)
    with pytest.raises(BudgetSpent, match="1,000 tokens of the 1,000"):
        check_budget(chapter.pk)


class SilentProvider(ScriptedProvider):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        async for part in super().stream(request):
            yield Finished(part.was_cut) if isinstance(part, Finished) else part


def add_estimated_call(chapter: Session, model: str, read: int, written: int = 0) -> None:
    """Add a stopped call. Its tokens are estimates, because the server reported no tokens."""
    add_call(chapter, model, estimated=(read, written))


def stop_a_reply(chapter: Session, provider: ScriptedProvider, words: str) -> None:
    """Send a prompt, and stop the reply as soon as it consists of these words."""

    async def run() -> None:
        gate = asyncio.Event()
        provider.enqueue(Script(f"{words} and more", gate=gate, gate_at=len(words.split())))
        opened = await start_prompt(chapter.pk, actor=1, words="Go.", submission_key="")
        async for _ in LIVE_REPLIES[opened.attempt.pk].read():
            if LIVE_REPLIES[opened.attempt.pk].text.strip() == words:
                break
        await stop_reply(chapter.pk)
        await reply_is_over(opened.attempt.pk)

    async_to_sync(run)()
    chapter.refresh_from_db()


class TestWithoutReportedTokens:
    """The cost of a call is estimated if its server reported no tokens, but may charge for the
    call."""

    @pytest.fixture(autouse=True)
    def _model(self, settings: Any) -> None:
        settings.LLM, settings.MODEL = "scripted", "nobody-knows"
        settings.MODEL_BY_AGENT = {}

    def assert_estimated(self, text: str) -> None:
        call = LLMArtifact.objects.latest("created_at")
        assert call.token_counts == {}
        assert call.raw_output_ref == text
        assert call.estimated_input == sum(layer["tokens"] for layer in call.layers) > 0
        assert call.estimated_output == math.ceil(weigh(text) / DEFAULT_WEIGHT_PER_TOKEN)

    def test_a_reply_that_was_stopped(self, chapter: Session, provider: ScriptedProvider) -> None:
        stop_a_reply(chapter, provider, "I step in")
        self.assert_estimated("I step in ")

    def test_one_that_broke_off(self, chapter: Session, provider: ScriptedProvider) -> None:
        provider.enqueue(Script("I step", error=StreamBroken("cut")))
        play(chapter)
        self.assert_estimated("I step")

    def test_one_of_a_server_that_reports_none(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("I step in.")
        provider.__class__ = SilentProvider
        assert play(chapter).status == Attempt.Status.COMMITTED
        self.assert_estimated("I step in.")

    @pytest.mark.parametrize(
        "failure",
        [ProviderUnreachable("refused"), ProviderBusy("429"), ProviderRefused("401")],
        ids=str,
    )
    def test_what_was_not_answered_costs_nothing(
        self, chapter: Session, provider: ScriptedProvider, failure: ProviderError
    ) -> None:
        provider.enqueue(failure)
        play(chapter)
        assert LLMArtifact.objects.count() == 1
        assert spending(chapter) == Spending()

    def test_stopping_and_trying_again_reaches_the_cap(
        self, chapter: Session, provider: ScriptedProvider, settings: Any
    ) -> None:
        stop_a_reply(chapter, provider, "I step in")
        settings.CHAPTER_TOKENS = 2 * spending(chapter).tokens
        stop_a_reply(chapter, provider, "I step in")
        with pytest.raises(BudgetSpent, match="about"):
            check_budget(chapter.pk)
        sent = len(provider.history)
        assert play(chapter).status == Attempt.Status.FAILED
        assert len(provider.history) == sent


def test_estimates_are_priced_and_told_apart(chapter: Session) -> None:
    add_call(chapter, "o4-mini", input=1_000_000, output=0, cached=1_000_000)
    add_estimated_call(chapter, "o4-mini", 1_000_000, 1_000_000)
    add_estimated_call(chapter, "nobody-knows", 5, 2)
    price = price_of("o4-mini")
    assert price is not None
    assert spending(chapter) == Spending(
        3_000_007, price.cached_input + price.input + price.output, 7, 2_000_007
    )


def test_estimates_count_for_the_cap_in_dollars(chapter: Session, settings: Any) -> None:
    settings.CHAPTER_BUDGET = Decimal(1)
    check_budget(chapter.pk)
    add_estimated_call(chapter, "o4-mini", 1_000_000)
    with pytest.raises(BudgetSpent, match=r"cost about \$1.10 of the \$1.00"):
        check_budget(chapter.pk)


def test_a_cap_is_checked_in_one_query_however_many_calls_there_were(
    chapter: Session, settings: Any, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    settings.CHAPTER_BUDGET, settings.CHAPTER_TOKENS = Decimal(100), 10**9
    for _ in range(3):
        with django_assert_num_queries(1):
            check_budget(chapter.pk)
        for model in ("o4-mini", "nobody-knows"):
            add_call(chapter, model, input=7, output=3, cached=0)
            add_estimated_call(chapter, model, 7, 3)


class TestModelsThatNoCapStops:
    @pytest.fixture(autouse=True)
    def _models(self, settings: Any) -> None:
        settings.LLM, settings.MODEL = "openai", ""
        settings.MODEL_BY_AGENT = {"AGENT_8": "my-own", "AGENT_9": "my-own"}
        settings.CHAPTER_BUDGET, settings.CHAPTER_TOKENS = Decimal(1), 0

    def test_a_cap_in_tokens_stops_them(self, settings: Any) -> None:
        settings.CHAPTER_TOKENS = 1_000
        assert uncapped_models() == []
