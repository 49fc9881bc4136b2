"""Adds up the tokens and dollars that a chapter has cost, and refuses calls beyond a cap."""

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Literal

from django.db.models import F, IntegerField, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce
from django.utils import timezone

from agents.calling.servers.caps import how_to_raise_dollars, how_to_raise_tokens, present_caps
from agents.calling.servers.choices import (
    EMBEDDED,
    ENVIRONMENT_PROVIDER,
    Choice,
    address_of_provider,
    choice_of,
)
from agents.exceptions import BudgetReserved, BudgetSpent, PriceUnknown
from agents.llm.facts.hosted_models import Price
from agents.llm.facts.prices import price_of
from agents.models import LLMArtifact, ModelTest, SpentTokens
from agents.modes.registry import all_agents
from agents.prompting.agent import Agent
from sessions.models import Session


@dataclass(frozen=True)
class Spending:
    """The tokens and dollars that a chapter has cost.

    `tokens` is the sum of input and output. `unpriced_tokens` are the tokens of models without a
    known price. `estimated_tokens` are the tokens that no provider reported, because the call was
    stopped or broke off, or because the server reports no tokens.
    """

    tokens: int = 0
    dollars: Decimal = Decimal(0)
    unpriced_tokens: int = 0
    estimated_tokens: int = 0

    @property
    def about(self) -> str:
        """The word that a page writes before a figure: "about " if the figure includes estimates,
        or else ""."""
        return "about " if self.estimated_tokens else ""

    @property
    def known_dollars(self) -> Decimal | None:
        """The known part of the cost. None if only models without a known price were used."""
        return None if self.tokens and self.unpriced_tokens >= self.tokens else self.dollars


def sum_of_tokens(kind: Literal["input", "output", "cached"]) -> Coalesce:
    """Return an expression for the sum of the tokens that providers reported."""
    return Coalesce(Sum(Cast(KeyTextTransform(kind, "token_counts"), IntegerField())), 0)


def sum_of_estimates(kind: Literal["input", "output"]) -> Coalesce:
    """Return an expression for the sum of the estimates for calls without a report."""
    return Coalesce(Sum(f"estimated_{kind}"), 0)


# The sums over the tests of models, by the names of the fields of SpentTokens.
_SUMS_OF_TESTS = {
    "read": sum_of_tokens("input"),
    "cached": sum_of_tokens("cached"),
    "written": sum_of_tokens("output"),
    "guessed_read": sum_of_estimates("input"),
    "guessed_written": sum_of_estimates("output"),
}
_USED = tuple(_SUMS_OF_TESTS)
_DAY = timedelta(days=1)

# For each model and server, the numbers of tokens, under the names of the fields of SpentTokens;
# see `used_by_model`.
Used = Mapping[str, Mapping[str, int]]


# The sign between a model and its server in the keys of `used_by_model`, if the user has added the
# server. No name of a model has this character.
_AT = "\n"


def price_at(model: str, provider: str) -> Price | None:
    """Return the price of a model at the server with this name in the records of calls."""
    return price_of(model, address_of_provider(provider))


def split_model(used: str) -> tuple[str, str]:
    """Split a key of `used_by_model` into the model and the server. The server has its name in the
    records of calls; the name is "" for the environment's server and the embedded model."""
    model, _, provider = used.partition(_AT)
    return model, provider


def used_key(model: str, provider: str) -> str:
    is_ours = provider in (ENVIRONMENT_PROVIDER, EMBEDDED)
    return model if is_ours else f"{model}{_AT}{provider}"


def add_to_spending(call: LLMArtifact) -> None:
    """Add the tokens of a call to what its chapter has spent. The caller stores the call in the
    same transaction, and has locked the chapter."""
    reported = call.token_counts
    used = {
        "read": reported.get("input", 0),
        "cached": reported.get("cached", 0),
        "written": reported.get("output", 0),
        "guessed_read": call.estimated_input,
        "guessed_written": call.estimated_output,
    }
    which = {"session_id": call.session_id, "provider": call.provider, "model": call.model}
    more = {name: F(name) + tokens for name, tokens in used.items() if tokens}
    if not more:
        return
    if not SpentTokens.objects.filter(**which).update(**more):
        SpentTokens.objects.create(**which, **used)


def used_by_model(session_id: uuid.UUID) -> dict[str, Counter[str]]:
    """Return the numbers of tokens by model and server, including the tokens that a fork inherited;
    `split_model` reads the keys. The numbers of a model have the names of the fields of
    SpentTokens.

    The function makes one query, which reads one row for each model, however many calls there were.
    """
    chapters = Session.everything.filter(pk=session_id).order_by()
    rows: list[Any] = list(
        chapters.values(
            "inherited_usage", *(f"spent_tokens__{name}" for name in ("provider", "model", *_USED))
        )
    )
    used: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        # A chapter without calls gives one row whose model is None. This row is left out.
        if row["spent_tokens__model"] is not None:
            key = used_key(row["spent_tokens__model"], row["spent_tokens__provider"])
            used[key].update({name: row[f"spent_tokens__{name}"] for name in _USED})
    for model, tokens in (rows[0]["inherited_usage"] if rows else {}).items():
        used[model].update(tokens)
    return used


def spending_of(session_id: uuid.UUID) -> Spending:
    """Return the spending of the chapter, including what a fork inherited, by one query."""
    return _price(used_by_model(session_id))


def spending_of_tests() -> Spending:
    """Return the spending of the tests of models within the last day."""
    recent = ModelTest.objects.filter(tested_at__gt=timezone.now() - _DAY).order_by()
    used: dict[str, Counter[str]] = defaultdict(Counter)
    rows: list[Any] = list(recent.values("provider", "model").annotate(**_SUMS_OF_TESTS))
    for row in rows:
        figures = {name: row[name] for name in _USED}
        used[used_key(row["model"], row["provider"])].update(figures)
    return _price(used)


def inherited_spending(chapter: Session) -> Spending:
    """Return the tokens and dollars that a fork's origin had spent before the fork. They count
    towards the caps of the fork too."""
    return _price(chapter.inherited_usage)


def _price(used: Used) -> Spending:
    tokens, dollars, unpriced, estimated = 0, Decimal(0), 0, 0
    for model, row in used.items():
        read, written = row["read"] + row["guessed_read"], row["written"] + row["guessed_written"]
        price = price_at(*split_model(model))
        tokens += read + written
        estimated += row["guessed_read"] + row["guessed_written"]
        if price is None:
            unpriced += read + written
        else:
            dollars += price.of({"input": read, "cached": row["cached"], "output": written})
    return Spending(tokens, dollars, unpriced, estimated)


def uncapped_models(agents: Sequence[Agent] | None = None) -> list[str]:
    """Return the models of these agents, or of all agents, whose calls no cap can stop. If only
    dollars are capped, these are the models without a known price."""
    caps = present_caps()
    if caps.dollars is None or caps.tokens is not None:
        return []
    agents = all_agents() if agents is None else agents
    choices = dict.fromkeys(choice_of(agent) for agent in agents)
    models = [one.model for one in choices if price_of(one.model, one.server.address) is None]
    return list(dict.fromkeys(models))


def check_price(choice: Choice) -> None:
    """Raise PriceUnknown if the user has chosen a model whose calls the cap in dollars cannot stop.
    If the environment names the model, nothing is raised, and pages only say that the cap cannot
    stop it."""
    caps = present_caps()
    is_stored = choice.source in ("chapter", "agent", "all")
    if caps.dollars is None or caps.tokens is not None or not is_stored or not choice.server.host:
        return
    if price_of(choice.model, choice.server.address) is None:
        raise PriceUnknown(
            f"The price of {choice.model} at {choice.server.title} is not known, so the cap of "
            f"${caps.dollars:.2f} a chapter could not stop it. Nothing was sent and your words are "
            "kept. Choose another model or cap the tokens of a chapter on the page Models, set "
            "STORYENGINE_CHAPTER_TOKENS, or give the price in STORYENGINE_MODELS_FILE."
        )


def check_budget(session_id: uuid.UUID, read_reserved: Callable[[], Used] = dict) -> None:
    """Raise BudgetSpent if the chapter has reached a cap, as this process last read the caps.

    `read_reserved` returns the tokens that the running calls have reserved. Raises BudgetReserved
    if the chapter reaches a cap together with the running calls. Without a cap nothing is read.
    """
    _check_caps(partial(spending_of, session_id), read_reserved, "This chapter has", "it")


def check_budget_of_tests(read_reserved: Callable[[], Used] = dict) -> None:
    """Raise BudgetSpent if the tests of the last day have cost as much as a chapter may, and
    BudgetReserved if the running tests may bring the cost that high."""
    _check_caps(spending_of_tests, read_reserved, "The tests of models within a day have", "they")


def _check_caps(
    read_spending: Callable[[], Spending],
    read_reserved: Callable[[], Used],
    who_has: str,
    who: str,
) -> None:
    caps = present_caps()
    dollars, tokens = caps.dollars, caps.tokens
    if not dollars and not tokens:
        return
    # The reserved tokens are read first. Then a call that ends between the two queries counts
    # twice. In the other order such a call would not count at all.
    reserved = _price(read_reserved())
    spent = read_spending()
    if dollars and spent.dollars >= dollars:
        raise BudgetSpent(
            f"{who_has} cost {spent.about}${spent.dollars:.2f} of the ${dollars:.2f} that "
            f"{who} may cost. Nothing was sent and your words are kept. "
            f"To go on, {how_to_raise_dollars()}."
        )
    if tokens and spent.unpriced_tokens >= tokens:
        raise BudgetSpent(
            f"{who_has} used {spent.about}{spent.unpriced_tokens:,} tokens of the "
            f"{tokens:,} that {who} may use on models without a known price. "
            "Nothing was sent and your words are kept. "
            f"To go on, {how_to_raise_tokens()}."
        )
    if dollars and spent.dollars + reserved.dollars >= dollars:
        raise BudgetReserved(
            f"{who_has} cost {spent.about}${spent.dollars:.2f} of the ${dollars:.2f} that "
            f"{who} may cost, and calls that are being made may cost the rest. {_WAIT} "
            f"{how_to_raise_dollars()}."
        )
    if tokens and spent.unpriced_tokens + reserved.unpriced_tokens >= tokens:
        raise BudgetReserved(
            f"{who_has} used {spent.about}{spent.unpriced_tokens:,} tokens of the "
            f"{tokens:,} that {who} may use on models without a known price, and calls that are "
            f"being made may use the rest. {_WAIT} {how_to_raise_tokens()}."
        )


_WAIT = "Nothing was sent and your words are kept. To go on, wait until these calls have ended, or"
