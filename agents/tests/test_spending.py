"""What calls cost, and the caps on a chapter."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agents.exceptions import BudgetSpent
from agents.model_list import Price
from agents.models import LLMArtifact
from agents.prices import price_of
from agents.providers.scripted import ScriptedProvider
from agents.spending import Spending, check_budget, spending_of
from agents.tests.playing import play
from sessions.models import Session, Turn
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


@pytest.fixture(autouse=True)
def _openai(settings: Any) -> None:
    settings.OPENAI_BASE_URL = "https://api.openai.com/v1"


def add_call(chapter: Session, model: str, **counts: int) -> None:
    LLMArtifact.objects.create(
        session=chapter,
        agent_id=1,
        provider="openai",
        model=model,
        input_hash="-",
        token_counts=counts,
        layers=[],
        raw_input_ref=[],
        raw_output_ref="",
        duration_ms=1,
    )


def spending(chapter: Session) -> Spending:
    return spending_of(LLMArtifact.objects.filter(session=chapter))


def test_cached_tokens_have_a_price_of_their_own() -> None:
    price = Price(Decimal(2), Decimal(8), Decimal("0.5"))
    counts = {"input": 1_000_000, "cached": 400_000, "output": 100_000}
    assert price.of(counts) == Decimal("1.2") + Decimal("0.2") + Decimal("0.8")


def test_prices_of_the_default_models_are_listed() -> None:
    for model in ("o4-mini", "gpt-5.2"):
        price = price_of(model)
        assert price is not None
        assert 0 < price.cached_input < price.input < price.output


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


def test_without_a_cap_nothing_is_refused(chapter: Session, provider: ScriptedProvider) -> None:
    add_call(chapter, "o4-mini", input=10**9, output=0, cached=0)
    assert play(chapter, key="one").status == Turn.Status.COMMITTED


def test_a_chapter_stops_at_its_budget_and_goes_on_when_it_is_raised(
    chapter: Session, settings: Any, provider: ScriptedProvider
) -> None:
    settings.CHAPTER_BUDGET = Decimal(1)
    add_call(chapter, "o4-mini", input=1_000_000, output=0, cached=0)
    turn = play(chapter, key="one")
    assert turn.status == Turn.Status.FAILED
    assert "$1.10 of the $1.00" in turn.error
    assert not provider.history
    settings.CHAPTER_BUDGET = Decimal(2)
    assert play(chapter, key="one").status == Turn.Status.COMMITTED


def test_tokens_cap_the_models_without_a_price(chapter: Session, settings: Any) -> None:
    settings.CHAPTER_TOKENS = 1_000
    add_call(chapter, "o4-mini", input=5_000, output=0, cached=0)
    check_budget(chapter.pk)
    add_call(chapter, "nobody-knows", input=900, output=100, cached=0)
    with pytest.raises(BudgetSpent, match="1,000 tokens of the 1,000"):
        check_budget(chapter.pk)
