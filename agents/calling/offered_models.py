"""The servers' own lists of models, and the servers that are found on this machine."""

import asyncio
from dataclasses import dataclass

from django.conf import settings

from agents.calling.consent import check_host
from agents.calling.servers.addresses import PRESETS, Preset
from agents.calling.servers.changing import all_servers
from agents.calling.servers.choices import EMBEDDED, Server
from agents.calling.servers.keys import key_for
from agents.llm.providers.model_lists import Listing, ask_names, ask_names_of_all

# How long a page waits for the servers of this machine, which are asked at the same time.
_SECONDS_TO_FIND = 1.0


@dataclass(frozen=True)
class Found:
    """A server of this machine that answered with a list of models."""

    preset: Preset
    models: tuple[str, ...]


def names_at(server: Server) -> Listing:
    """Ask the server for the names of its models. Raises ConsentMissing before anything is sent to
    a host that is not allowed."""
    if server.name == EMBEDDED:
        return Listing()
    check_host(server.host)
    return asyncio.run(ask_names(server.address, key_for(server)))


def find_servers() -> list[Found]:
    """Ask the usual ports of this machine for servers that are not known yet, without a key."""
    known = {server.address for server in all_servers()}
    presets = [
        preset
        for preset in PRESETS
        if preset.address.startswith("http://127.0.0.1:")
        and preset.address not in known
        and f":{settings.PORT}/" not in preset.address
    ]
    answers = asyncio.run(
        ask_names_of_all([one.address for one in presets], seconds=_SECONDS_TO_FIND)
    )
    return [
        Found(preset, tuple(names))
        for preset in presets
        if (names := answers[preset.address]) is not None
    ]
