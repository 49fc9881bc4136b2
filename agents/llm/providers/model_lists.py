"""Asks servers for the names of their models. Each server gets one bounded request."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import httpx2

from agents.llm.providers.bounds import READ_ERRORS, parse, read_all
from agents.llm.providers.failures.server_words import read_words
from agents.llm.providers.guard import check_real_calls_allowed
from agents.llm.providers.http_clients import build_http_client

MOST_NAMES = 1_000
LONGEST_NAME = 200
# Servers send the list under one of these names. The first is the name in the protocol.
_LISTS = ("data", "models")
_LARGEST_ANSWER = 4_000_000


@dataclass(frozen=True)
class Listing:
    """The names of a server's models. If the server did not answer with a list, the names are None,
    and the other field has the server's words."""

    names: list[str] | None = None
    said: str = ""


async def ask_names(base_url: str, api_key: str = "", *, seconds: float = 4.0) -> Listing:
    """Ask the server for its models. Names that are too long or not printable are left out."""
    check_real_calls_allowed()
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        timeout = httpx2.Timeout(seconds)
        async with (
            asyncio.timeout(seconds),
            build_http_client(base_url, timeout) as client,
            client.stream("GET", f"{base_url.rstrip('/')}/models", headers=headers) as response,
        ):
            body = await read_all(response, _LARGEST_ANSWER)
    except (httpx2.InvalidURL, *READ_ERRORS):
        return Listing()
    if response.status_code == 200:
        with suppress(ValueError):
            if (names := _names_in(parse(body))) is not None:
                return Listing(names)
    # What a server says of a wrong key may repeat the key.
    said = "" if response.status_code == 401 else read_words(body).shown(api_key)
    return Listing(said=said)


async def ask_names_of_all(
    addresses: Sequence[str], *, seconds: float
) -> dict[str, list[str] | None]:
    """Ask several servers at the same time, without keys."""
    answers = await asyncio.gather(*(ask_names(one, seconds=seconds) for one in addresses))
    return {address: one.names for address, one in zip(addresses, answers, strict=True)}


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
