"""Sums up the calls and tokens of a chapter."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import Count, F, Q, QuerySet

from agents.calling.records.call_records import OUTCOME, Outcome, agent_label
from agents.calling.spending import price_at, split_model, sum_of_estimates, sum_of_tokens
from agents.models import LLMArtifact
from sessions.models import Session


@dataclass(frozen=True)
class Usage:
    """The numbers of calls by outcome, and the numbers of tokens.

    Cached tokens are part of the input. If a call has no report, in most cases because it was
    stopped, its tokens are estimated and counted separately.
    """

    calls: int = 0
    failed: int = 0
    stopped: int = 0
    warm_ups: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    estimated_input_tokens: int = 0
    estimated_output_tokens: int = 0

    @property
    def finished(self) -> int:
        return self.calls - self.failed - self.stopped - self.warm_ups

    @property
    def all_input(self) -> int:
        return self.input_tokens + self.estimated_input_tokens

    @property
    def all_output(self) -> int:
        return self.output_tokens + self.estimated_output_tokens

    @property
    def tokens(self) -> int:
        return self.all_input + self.all_output


@dataclass(frozen=True)
class AgentUsage:
    """The usage of one model of one server by one agent. `provider` is the server's name in the
    records of calls, or "" for the environment's server and the embedded model. If `agent_id` is
    None and `agent` is "Before the fork", the usage is that of all agents of a fork's origin."""

    agent_id: int | None
    agent: str
    model: str
    usage: Usage
    provider: str = ""

    @property
    def dollars(self) -> Decimal | None:
        """The price, including estimated tokens. None if the model's price is not known."""
        price = price_at(self.model, self.provider)
        used = self.usage
        counts = {
            "input": used.all_input,
            "cached": used.cached_tokens,
            "output": used.all_output,
        }
        return None if price is None else price.of(counts)


def _ended(outcome: Outcome) -> Count:
    return Count("pk", filter=Q(outcome=outcome.value))


_FIGURES = {
    "calls": Count("pk"),
    "failed": _ended(Outcome.FAILED),
    "stopped": _ended(Outcome.STOPPED),
    "warm_ups": _ended(Outcome.WARM_UP),
    "input_tokens": sum_of_tokens("input"),
    "cached_tokens": sum_of_tokens("cached"),
    "output_tokens": sum_of_tokens("output"),
    "estimated_input_tokens": sum_of_estimates("input"),
    "estimated_output_tokens": sum_of_estimates("output"),
}


def usage_of(artifacts: QuerySet[LLMArtifact]) -> Usage:
    return Usage(**artifacts.order_by().annotate(outcome=OUTCOME).aggregate(**_FIGURES))


def usage_by_agent(chapter: Session) -> list[AgentUsage]:
    """Return the usage of each model by each agent, in the order of the agents."""
    rows: QuerySet[Any, Any] = (
        chapter.llm_artifacts.annotate(outcome=OUTCOME)
        .values("agent", "agent_id", "model", "provider")
        .annotate(**_FIGURES)
        .order_by(F("agent_id").asc(nulls_last=True), "agent", "model", "provider")
    )
    return [
        AgentUsage(
            agent_id=row["agent_id"],
            agent=agent_label(chapter, row["agent"], row["agent_id"]),
            model=row["model"],
            usage=Usage(**{name: row[name] for name in _FIGURES}),
            provider=row["provider"],
        )
        for row in rows
    ]


def inherited_usage(chapter: Session) -> list[AgentUsage]:
    """Return the tokens that a fork's origin had used before the fork, with one entry for each
    model.

    The calls are not counted, because they belong to the origin.
    """
    return [
        AgentUsage(
            agent_id=None,
            agent="Before the fork",
            model=split_model(used)[0],
            provider=split_model(used)[1],
            usage=Usage(
                input_tokens=tokens["read"],
                cached_tokens=tokens["cached"],
                output_tokens=tokens["written"],
                estimated_input_tokens=tokens["guessed_read"],
                estimated_output_tokens=tokens["guessed_written"],
            ),
        )
        for used, tokens in sorted(chapter.inherited_usage.items())
    ]


def total_of(usages: Iterable[Usage]) -> Usage:
    listed = list(usages)
    return Usage(**{name: sum(getattr(one, name) for one in listed) for name in _FIGURES})
