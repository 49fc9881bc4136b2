"""Asks servers for the names of their models. Each server gets one bounded request."""

import asyncio
from collections.abc import Mapping, Sequence

import httpx2

from agents.providers.bounds import READ_ERRORS, read_json
from agents.providers.guard import check_real_calls_allowed
from agents.providers.http_clients import build_http_client

MOST_NAMES = 1_000
LONGEST_NAME = 200
# The names of the list, of which the first is that of the protocol.
_LISTS = ("data", "models")
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
    if isinstance(answer, Mapping):
        answer = next((answer[name] for name in _LISTS if isinstance(answer.get(name), list)), None)
    if not isinstance(answer, list):
        return None
    names = (
        entry.get("id") or entry.get("name") if isinstance(entry, Mapping) else entry
        for entry in answer[: 4 * MOST_NAMES]
    )
    good = (
        name
        for name in names
        if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable()
    )
    return sorted(dict.fromkeys(good))[:MOST_NAMES]
