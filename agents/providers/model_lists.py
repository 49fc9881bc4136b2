"""Asks servers for the names of their models. Each server gets one bounded request."""

import asyncio
from collections.abc import Mapping, Sequence

import httpx2

from agents.providers.bounds import READ_ERRORS, read_json
from agents.providers.guard import check_real_calls_allowed
from agents.providers.http_clients import build_http_client

MOST_NAMES = 1_000
LONGEST_NAME = 200
_LARGEST_ANSWER = 4_000_000


async def ask_names(base_url: str, api_key: str = "", *, seconds: float = 4.0) -> list[str] | None:
    """Return the names of the server's models, or None if the server does not answer with a list.

    Names that are too long or not printable are left out.
    """
    check_real_calls_allowed()
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        timeout = httpx2.Timeout(seconds)
        async with (
            asyncio.timeout(seconds),
            build_http_client(base_url, timeout) as client,
            client.stream("GET", f"{base_url.rstrip('/')}/models", headers=headers) as response,
        ):
            if response.status_code != 200:
                return None
            return _names_in(await read_json(response, _LARGEST_ANSWER))
    except (httpx2.InvalidURL, *READ_ERRORS):
        return None


async def ask_names_of_all(
    addresses: Sequence[str], *, seconds: float
) -> dict[str, list[str] | None]:
    """Ask several servers at the same time, without keys."""
    answers = await asyncio.gather(*(ask_names(one, seconds=seconds) for one in addresses))
    return dict(zip(addresses, answers, strict=True))


def _names_in(answer: object) -> list[str] | None:
    entries = answer.get("data") if isinstance(answer, Mapping) else answer
    if not isinstance(entries, list):
        return None
    names = (entry.get("id") for entry in entries[: 4 * MOST_NAMES] if isinstance(entry, Mapping))
    good = (
        name
        for name in names
        if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable()
    )
    return sorted(dict.fromkeys(good))[:MOST_NAMES]
