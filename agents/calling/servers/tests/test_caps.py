"""Tests of the caps that the user stores: the environment's cap is the highest, and each process
reads the stored one."""

from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from pytest_django import Settings

from agents.calling.calls import call_model
from agents.calling.servers import caps
from agents.calling.servers.caps import NO_CAPS, Caps, present_caps, stored_caps
from agents.calling.servers.changing import save_caps
from agents.calling.servers.choices import refresh_choices
from agents.calling.spending import check_budget, uncapped_models
from agents.exceptions import BudgetSpent
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import SpendingCap
from agents.prompting.declarations import NARRATOR
from agents.tests.recorded_calls import add_call
from sessions.exceptions import InvalidInput
from sessions.models import Session
from sessions.tests.factories import make_active_chapter
from testing.refusals import NOTHING_CHANGED

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _hosted(settings: Settings) -> None:
    settings.LLM, settings.MODEL, settings.MODEL_BY_AGENT = "openai", "gpt-5.2", {}
    settings.OPENAI_BASE_URL = "https://api.openai.com/v1"
    settings.CHAPTER_BUDGET, settings.CHAPTER_TOKENS = Decimal(5), 0


def spend(chapter: Session, model: str, read: int) -> None:
    add_call(chapter, model, input=read)


class TestHighest:
    @pytest.mark.parametrize(
        "wrong",
        [
            Caps(dollars=Decimal("5.01")),
            Caps(dollars=Decimal(0)),
            Caps(dollars=Decimal(-1)),
            Caps(dollars=Decimal("0.001")),
            Caps(dollars=Decimal("NaN")),
            Caps(dollars=Decimal("Infinity")),
            Caps(tokens=0),
            Caps(tokens=10**12 + 1),
        ],
    )
    def test_what_cannot_be_a_cap_is_refused(self, wrong: Caps) -> None:
        save_caps(Caps(Decimal(2), 100))
        with pytest.raises(InvalidInput, match=NOTHING_CHANGED):
            save_caps(wrong)
        assert stored_caps() == Caps(Decimal(2), 100)

    def test_the_lower_cap_counts_also_if_the_environment_is_lowered_later(
        self, settings: Settings
    ) -> None:
        save_caps(Caps(Decimal(3), 500))
        assert present_caps() == Caps(Decimal(3), 500)
        settings.CHAPTER_BUDGET = Decimal(1)
        assert present_caps().dollars == 1
        save_caps(NO_CAPS)
        assert present_caps() == Caps(Decimal(1), None)


class TestCounting:
    def test_a_stored_cap_ends_the_calls_and_says_where_it_can_be_raised(
        self, settings: Settings
    ) -> None:
        chapter = make_active_chapter()
        spend(chapter, "gpt-5.2", 1_000_000)
        check_budget(chapter.pk)
        save_caps(Caps(dollars=Decimal("1.50")))
        with pytest.raises(BudgetSpent, match=r"of the \$1\.50.*the page Models"):
            check_budget(chapter.pk)
        # A cap that is as high as it may be can be raised only in the environment.
        settings.CHAPTER_BUDGET = Decimal("1.50")
        with pytest.raises(BudgetSpent, match="STORYENGINE_CHAPTER_BUDGET"):
            check_budget(chapter.pk)

    def test_a_cap_in_tokens_caps_every_model(self, settings: Settings) -> None:
        settings.MODEL = "nobody-knows"
        assert uncapped_models() == ["nobody-knows"]
        save_caps(Caps(tokens=1_000))
        assert uncapped_models() == []

    def test_a_worker_counts_the_cap_that_another_process_has_stored(
        self, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        chapter = make_active_chapter()
        spend(chapter, "gpt-5.2", 1_000_000)
        save_caps(Caps(dollars=Decimal(1)))
        # This process has not read the cap yet.
        monkeypatch.setattr(caps, "_stored", NO_CAPS)
        with pytest.raises(BudgetSpent):
            async_to_sync(call_model)(NARRATOR, chapter.pk, list)
        assert not provider.history

    def test_choices_and_caps_are_read_by_one_query(self, django_assert_num_queries: Any) -> None:
        SpendingCap.objects.create(dollars=Decimal("2.5"), tokens=7)
        with django_assert_num_queries(1):
            refresh_choices()
        assert stored_caps() == Caps(Decimal("2.5"), 7)
