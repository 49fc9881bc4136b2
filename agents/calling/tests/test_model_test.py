"""Tests that the test of a model is recorded, and counts towards the caps."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from agents.calling.chapter_models import save_models
from agents.calling.model_test import try_model
from agents.calling.servers.caps import Caps
from agents.calling.servers.changing import add_server, choose_models, save_caps
from agents.exceptions import BudgetSpent, PriceUnknown, RateLimited
from agents.llm.providers.failures.call_errors import (
    ProviderBusy,
    ProviderError,
    StreamBroken,
)
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import LLMArtifact, ModelTest
from agents.prompting.agent import in_chapter
from agents.prompting.declarations import NARRATOR
from agents.prompting.own_settings import OwnSettings
from agents.tests.recorded_calls import add_call
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _hosted(settings: Settings) -> None:
    settings.LLM, settings.MODEL, settings.MODEL_BY_AGENT = "openai", "gpt-5.2", {}
    settings.OPENAI_BASE_URL = "https://api.openai.com/v1"
    settings.CHAPTER_BUDGET, settings.CHAPTER_TOKENS = Decimal(0), 0


def test_a_test_is_recorded_with_its_tokens(provider: ScriptedProvider) -> None:
    provider.enqueue("Ready.")
    result = try_model(NARRATOR)
    record = ModelTest.objects.get()
    assert (record.agent, record.provider, record.model) == ("narrator", "openai", "gpt-5.2")
    assert record.token_counts["input"] + record.token_counts["output"] == result.tokens
    assert record.session is None
    assert not LLMArtifact.objects.exists()


@pytest.mark.parametrize(
    ("error", "may_cost"), [(StreamBroken("It broke off."), True), (ProviderBusy("Busy."), False)]
)
def test_one_that_may_cost_something_is_estimated_also_without_a_word(
    provider: ScriptedProvider, error: ProviderError, may_cost: bool
) -> None:
    provider.enqueue(error)
    try_model(NARRATOR)
    record = ModelTest.objects.get()
    assert (record.estimated_input > 0) == may_cost
    assert record.estimated_output == 0


class TestCaps:
    def spend(self, **fields: Any) -> None:
        tokens = {"input": 1_000_000, "output": 0, "cached": 0}
        known = {"agent": "narrator", "provider": "openai", "model": "gpt-5.2"}
        ModelTest.objects.create(**(known | {"token_counts": tokens} | fields))

    def test_the_tests_of_a_day_cost_at_most_what_a_chapter_may(
        self, provider: ScriptedProvider
    ) -> None:
        save_caps(Caps(dollars=Decimal(1)))
        yesterday = timezone.now() - timedelta(hours=25)
        self.spend(tested_at=yesterday)
        provider.enqueue("Ready.")
        assert try_model(NARRATOR).works
        self.spend()
        with pytest.raises(BudgetSpent, match="The tests of models within a day have cost"):
            try_model(NARRATOR)
        assert len(provider.history) == 1

    def test_the_model_of_a_chapter_that_has_spent_all_is_not_tested(
        self, provider: ScriptedProvider
    ) -> None:
        save_caps(Caps(dollars=Decimal(1)))
        chapter = save_models(make_active_chapter().pk, {"AGENT_9": OwnSettings(model="o4-mini")})
        agent = in_chapter(NARRATOR, chapter)
        provider.enqueue("Ready.")
        assert try_model(agent, chapter).model == "o4-mini"
        assert ModelTest.objects.get().session == chapter
        add_call(chapter, "gpt-5.2", input=1_000_000)
        with pytest.raises(BudgetSpent, match="This chapter has cost"):
            try_model(agent, chapter)
        assert len(provider.history) == 1

    def test_a_model_without_a_price_is_not_tested_under_a_cap_in_dollars(
        self, provider: ScriptedProvider
    ) -> None:
        save_caps(Caps(dollars=Decimal(1)))
        add_server("Mine", "https://models.example/v1")
        choose_models({"AGENT_9": ("mine", "nobody-knows")})
        with pytest.raises(PriceUnknown):
            try_model(NARRATOR)
        assert not provider.history

    def test_the_calls_in_a_minute_are_capped(
        self, provider: ScriptedProvider, settings: Settings
    ) -> None:
        settings.CHAPTER_CALLS_PER_MINUTE = 1
        provider.enqueue("Ready.")
        assert try_model(NARRATOR).works
        with pytest.raises(RateLimited):
            try_model(NARRATOR)
