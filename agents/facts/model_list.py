"""The windows and prices of hosted models that the package genai-prices lists, without network."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True)
class Price:
    """Dollars per million tokens; `cached_input` applies to tokens from a prefix cache."""

    input: Decimal
    output: Decimal
    cached_input: Decimal

    def of(self, token_counts: Mapping[str, int]) -> Decimal:
        """Return the price of calls in dollars, by their token counts as artifacts store them."""
        cached = token_counts.get("cached", 0)
        fresh = max(token_counts.get("input", 0) - cached, 0)
        written = token_counts.get("output", 0)
        cost = fresh * self.input + cached * self.cached_input + written * self.output
        return cost / _MILLION


@dataclass(frozen=True)
class ListedModel:
    """A model of the list; its `context_window` is in tokens, or None if unknown."""

    context_window: int | None
    price: Price


@lru_cache(maxsize=64)
def find_listed(model: str, base_url: str) -> ListedModel | None:
    """Return the model at the server of that address; None if server or model is not listed."""
    # This import loads 1.5 MB of data, which the embedded model never needs.
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
