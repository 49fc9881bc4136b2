"""What a chapter has cost, and the caps that end it before it costs more."""

import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db.models import IntegerField, QuerySet, Sum
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce

from agents.exceptions import BudgetSpent
from agents.models import LLMArtifact
from agents.prices import price_of


@dataclass(frozen=True)
class Spending:
    """Tokens in and out; `unpriced_tokens` are those of models whose price is not known."""

    tokens: int = 0
    dollars: Decimal = Decimal(0)
    unpriced_tokens: int = 0


def sum_of_tokens(kind: str) -> Coalesce:
    """Of calls as providers reported them; `kind` is input, output or cached."""
    return Coalesce(Sum(Cast(KT(f"token_counts__{kind}"), IntegerField())), 0)


def spending_of(artifacts: QuerySet[LLMArtifact]) -> Spending:
    counts = {kind: sum_of_tokens(kind) for kind in ("input", "output", "cached")}
    tokens, dollars, unpriced = 0, Decimal(0), 0
    rows: QuerySet[Any, Any] = artifacts.order_by().values("model").annotate(**counts)
    for row in rows:
        used = row["input"] + row["output"]
        price = price_of(row["model"])
        tokens += used
        if price is None:
            unpriced += used
        else:
            dollars += price.of(row)
    return Spending(tokens, dollars, unpriced)


def check_budget(session_id: uuid.UUID) -> None:
    """Raises BudgetSpent where the chapter has reached a cap of the environment."""
    dollars, tokens = settings.CHAPTER_BUDGET, settings.CHAPTER_TOKENS
    if not dollars and not tokens:
        return
    spent = spending_of(LLMArtifact.objects.filter(session_id=session_id))
    if dollars and spent.dollars >= dollars:
        raise BudgetSpent(
            f"This chapter has cost ${spent.dollars:.2f} of the ${dollars:.2f} that it may. "
            "Nothing was sent and your words are kept. "
            "To go on, raise STORYENGINE_CHAPTER_BUDGET and restart."
        )
    if tokens and spent.unpriced_tokens >= tokens:
        raise BudgetSpent(
            f"This chapter has used {spent.unpriced_tokens:,} tokens of the {tokens:,} that it may "
            "on models without a known price. Nothing was sent and your words are kept. "
            "To go on, raise STORYENGINE_CHAPTER_TOKENS and restart."
        )
