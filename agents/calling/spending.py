"""What a chapter has cost, and the caps that end it before it costs more."""

import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from django.conf import settings
from django.db.models import IntegerField, QuerySet, Sum
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce

from agents.calling.model_access import model_name
from agents.exceptions import BudgetSpent
from agents.facts.prices import price_of
from agents.models import LLMArtifact
from agents.prompting.declarations import AGENTS


@dataclass(frozen=True)
class Spending:
    """Tokens in and out; `unpriced_tokens` are those of models whose price is not known.

    `estimated_tokens` are those of them all that no provider reported: of calls that were stopped
    or broke off, and of servers that report none.
    """

    tokens: int = 0
    dollars: Decimal = Decimal(0)
    unpriced_tokens: int = 0
    estimated_tokens: int = 0

    @property
    def about(self) -> str:
        """What stands before figures that are estimated in part: "about " or nothing."""
        return "about " if self.estimated_tokens else ""

    @property
    def known_dollars(self) -> Decimal | None:
        """At least so much; None where no price of anything that was used is known."""
        return None if self.tokens and self.unpriced_tokens >= self.tokens else self.dollars


def sum_of_tokens(kind: Literal["input", "output", "cached"]) -> Coalesce:
    """Of calls as providers reported them."""
    return Coalesce(Sum(Cast(KT(f"token_counts__{kind}"), IntegerField())), 0)


def sum_of_estimates(kind: Literal["input", "output"]) -> Coalesce:
    """Of calls that may have cost something and reported nothing."""
    return Coalesce(Sum(f"estimated_{kind}"), 0)


def spending_of(artifacts: QuerySet[LLMArtifact]) -> Spending:
    """In one query that reads no prompts: an index of the artifacts has all that it asks for."""
    rows: QuerySet[Any, Any] = (
        artifacts.order_by()
        .values("model")
        .annotate(
            read=sum_of_tokens("input"),
            cached=sum_of_tokens("cached"),
            written=sum_of_tokens("output"),
            guessed_read=sum_of_estimates("input"),
            guessed_written=sum_of_estimates("output"),
        )
    )
    tokens, dollars, unpriced, estimated = 0, Decimal(0), 0, 0
    for row in rows:
        read, written = row["read"] + row["guessed_read"], row["written"] + row["guessed_written"]
        price = price_of(row["model"])
        tokens += read + written
        estimated += row["guessed_read"] + row["guessed_written"]
        if price is None:
            unpriced += read + written
        else:
            dollars += price.of({"input": read, "cached": row["cached"], "output": written})
    return Spending(tokens, dollars, unpriced, estimated)


def uncapped_models() -> list[str]:
    """Models that agents run on and whose calls no cap can stop, though one in dollars is set."""
    if not settings.CHAPTER_BUDGET or settings.CHAPTER_TOKENS:
        return []
    models = dict.fromkeys(model_name(agent) for agent in AGENTS.values())
    return [model for model in models if price_of(model) is None]


def check_budget(session_id: uuid.UUID) -> None:
    """Raises BudgetSpent where the chapter has reached a cap of the environment."""
    dollars, tokens = settings.CHAPTER_BUDGET, settings.CHAPTER_TOKENS
    if not dollars and not tokens:
        return
    spent = spending_of(LLMArtifact.objects.filter(session_id=session_id))
    if dollars and spent.dollars >= dollars:
        raise BudgetSpent(
            f"This chapter has cost {spent.about}${spent.dollars:.2f} of the ${dollars:.2f} that "
            "it may. Nothing was sent and your words are kept. "
            "To go on, raise STORYENGINE_CHAPTER_BUDGET and restart."
        )
    if tokens and spent.unpriced_tokens >= tokens:
        raise BudgetSpent(
            f"This chapter has used {spent.about}{spent.unpriced_tokens:,} tokens of the "
            f"{tokens:,} that it may on models without a known price. "
            "Nothing was sent and your words are kept. "
            "To go on, raise STORYENGINE_CHAPTER_TOKENS and restart."
        )
