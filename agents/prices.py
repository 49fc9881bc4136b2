"""What calls cost, in dollars."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from django.conf import settings

from agents.capabilities import facts_of
from agents.model_list import find_listed

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True)
class Price:
    """Dollars for a million tokens; `cached_input` is for those that a prefix cache had."""

    input: Decimal
    output: Decimal
    cached_input: Decimal

    def of(self, token_counts: Mapping[str, int]) -> Decimal:
        """Dollars for a call, or for a sum of calls, with counts as an artifact keeps them."""
        cached = token_counts.get("cached", 0)
        fresh = max(token_counts.get("input", 0) - cached, 0)
        written = token_counts.get("output", 0)
        cost = fresh * self.input + cached * self.cached_input + written * self.output
        return cost / _MILLION


FREE = Price(Decimal(0), Decimal(0), Decimal(0))


def price_of(model: str) -> Price | None:
    """From the capability files, else as listed for the server; None where no price is known.

    The embedded model costs nothing.
    """
    if model.startswith("embedded:"):
        return FREE
    facts = facts_of(model)
    if facts.input_price is not None and facts.output_price is not None:
        cached = facts.input_price if facts.cached_price is None else facts.cached_price
        return Price(facts.input_price, facts.output_price, cached)
    if listed := find_listed(model, settings.OPENAI_BASE_URL):
        return Price(listed.input_price, listed.output_price, listed.cached_price)
    return None
