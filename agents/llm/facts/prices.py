"""The price of a model."""

from decimal import Decimal

from django.conf import settings

from agents.llm.facts.hosted_models import Price, find_listed
from agents.llm.facts.model_facts import facts_of

FREE = Price(Decimal(0), Decimal(0), Decimal(0))


def price_of(model: str, address: str = "") -> Price | None:
    """Return the price of a model, or None if the price is not known.

    A price in a capability file has priority over the price that is listed for the server. The
    embedded model has the price FREE. `address` is the address of the server, or "" for the
    environment's server.
    """
    if model.startswith("embedded:"):
        return FREE
    facts = facts_of(model, address)
    if facts.input_price is not None and facts.output_price is not None:
        cached = facts.input_price if facts.cached_price is None else facts.cached_price
        return Price(facts.input_price, facts.output_price, cached)
    listed = find_listed(model, address or settings.OPENAI_BASE_URL)
    return listed.price if listed else None
