"""Estimates the tokens and the price of calls before they are made."""

from dataclasses import dataclass
from decimal import Decimal

from agents.calling.model_access import AgentModel
from agents.calling.servers.caps import how_to_raise_dollars, how_to_raise_tokens, present_caps
from agents.calling.spending import spending_of
from sessions.models import Session


@dataclass(frozen=True)
class CallsEstimate:
    """The estimated tokens of all calls, if no call has to be repeated.

    `reasoning_tokens` is the most hidden reasoning that may be added to these tokens. `dollars` is
    None if the model's price is not known. `warning` is a sentence if the calls would pass a cap,
    and otherwise "".
    """

    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    dollars: Decimal | None
    reasoning_dollars: Decimal | None
    warning: str

    @property
    def about_input(self) -> int:
        return _rounded(self.input_tokens)

    @property
    def about_output(self) -> int:
        return _rounded(self.output_tokens)


def estimate_calls(
    chapter: Session, model: AgentModel, *, calls: int, read: int, written: int
) -> CallsEstimate:
    """Return the estimate for this number of calls. `read` and `written` are the tokens of all
    calls together."""
    hidden = model.agent.reasoning_tokens * calls if model.facts.reasons else 0
    price = model.price
    dollars = price.of({"input": read, "output": written}) if price else None
    return CallsEstimate(
        model=model.name,
        calls=calls,
        input_tokens=read,
        output_tokens=written,
        reasoning_tokens=hidden,
        dollars=dollars,
        reasoning_dollars=price.of({"output": hidden}) if price else None,
        warning=_warning(chapter, read + written, dollars),
    )


def _warning(chapter: Session, tokens: int, dollars: Decimal | None) -> str:
    spent = spending_of(chapter.pk)
    caps = present_caps()
    budget, most_tokens = caps.dollars, caps.tokens
    if dollars is not None and budget and spent.dollars + dollars > budget:
        return (
            f"That is more than this chapter may still cost: ${spent.dollars:.2f} of the "
            f"${budget:.2f} that it may cost are spent. To go on, {how_to_raise_dollars()}."
        )
    if dollars is None and most_tokens and spent.unpriced_tokens + tokens > most_tokens:
        return (
            f"That is more than this chapter may still use: {spent.unpriced_tokens:,} of the "
            f"{most_tokens:,} tokens that it may use are spent. To go on, {how_to_raise_tokens()}."
        )
    return ""


def _rounded(tokens: int) -> int:
    """Return the number rounded to two figures, because the estimate is not more exact than that.
    For example, 18,437 becomes 18,000."""
    return round(tokens, 2 - len(str(tokens)))
