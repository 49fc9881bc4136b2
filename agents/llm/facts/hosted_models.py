"""The windows and prices of hosted models. They are read from the installed package genai-prices,
without the network."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True)
class Price:
    """Prices in dollars per million tokens. `cached_input` is the price of input tokens that the
    server had in its prefix cache."""

    input: Decimal
    output: Decimal
    cached_input: Decimal

    def of(self, token_counts: Mapping[str, int]) -> Decimal:
        """Return the price in dollars of a call with these numbers of tokens. The keys are "input",
        "cached" and "output", as in artifacts."""
        cached = token_counts.get("cached", 0)
        fresh = max(token_counts.get("input", 0) - cached, 0)
        written = token_counts.get("output", 0)
        cost = fresh * self.input + cached * self.cached_input + written * self.output
        return cost / _MILLION


@dataclass(frozen=True)
class ListedModel:
    """A model of genai-prices' list. `context_window` is in tokens, or None if it is not known."""

    context_window: int | None
    price: Price


@lru_cache(maxsize=64)
def find_listed(model: str, base_url: str) -> ListedModel | None:
    """Return the list's entry for this model at the server with this address.

    Returns None if the server or the model is not in the list.
    """
    # The import is inside the function because the package loads 1.5 MB of data, which the embedded
    # model never needs.
    from genai_prices import Usage, calc_price

    def dollars(usage: Usage) -> Decimal:
        calculated = calc_price(usage, model, provider_api_url=base_url)
        return calculated.total_price * 1_000

    try:
        listed = calc_price(Usage(), model, provider_api_url=base_url).model
        return ListedModel(
            context_window=listed.context_window,
            price=Price(
                input=dollars(Usage(input_tokens=1_000)),
                output=dollars(Usage(output_tokens=1_000)),
                cached_input=dollars(Usage(input_tokens=1_000, cache_read_tokens=1_000)),
            ),
        )
    except LookupError:
        return None
