"""What the package genai-prices knows of hosted models: windows and prices, without a network."""

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache


@dataclass(frozen=True)
class ListedModel:
    """`context_window` in tokens, None if unknown; prices in dollars for a million tokens."""

    context_window: int | None
    input_price: Decimal
    output_price: Decimal
    cached_price: Decimal


@lru_cache(maxsize=64)
def find_listed(model: str, base_url: str) -> ListedModel | None:
    """The model at the server of that address; None for servers and models that are not listed."""
    # Imported late: a megabyte and a half of data, which the embedded model never needs.
    from genai_prices import Usage, calc_price

    def price(usage: Usage) -> Decimal:
        calculated = calc_price(usage, model, provider_api_url=base_url)
        return calculated.total_price * 1_000

    try:
        listed = calc_price(Usage(), model, provider_api_url=base_url).model
        return ListedModel(
            context_window=listed.context_window,
            input_price=price(Usage(input_tokens=1_000)),
            output_price=price(Usage(output_tokens=1_000)),
            cached_price=price(Usage(input_tokens=1_000, cache_read_tokens=1_000)),
        )
    except LookupError:
        return None
