"""Asks the servers in use for the windows of their models. A server is asked about a model only if
its report has priority over settings and files."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import Error as DatabaseError

from agents.calling.consent import is_allowed
from agents.calling.model_access import models_worth_asking_about
from agents.calling.servers.choices import Server, refresh_choices
from agents.calling.servers.keys import KeysUnreadable, key_for
from agents.llm.facts.reported_windows import models_to_ask_about, store_reports
from agents.llm.providers.windows import WindowReport, ask_windows
from agents.modes.registry import all_agents
from agents.prompting.agent import Agent, in_chapter
from sessions.models import Session

logger = logging.getLogger(__name__)

# How long a server's report is used before the server is asked again: a server on this machine, and
# any other server. A local server often gets another window, and asking it is free.
_AFTER_HERE, _AFTER_ELSEWHERE = timedelta(minutes=10), timedelta(days=1)
# How long a report is used if it has only a model's upper limit. This time is short, because some
# servers load a model at its first call, and know the real window only after that call.
_AFTER_CEILING = timedelta(minutes=1)


# Servers are asked about the own models of at most this many chapters: those that were played last.
_MOST_CHAPTERS = 20


def ask_servers(*, in_passing: bool = False) -> None:
    """Ask each server in use about the models whose windows are missing or old, and store the
    reports.

    If `in_passing` is True, no text is about to be sent, and only servers on this machine are
    asked. Another server is never asked before the GM has allowed calls to it.

    Call this function in workers and outside of transactions, because it may wait some seconds for
    the network. Failures are only logged.
    """
    try:
        refresh_choices()
        worth = models_worth_asking_about([*all_agents(), *_agents_of_chapters()])
        asked = [
            _Asked(server, key, due)
            for server, models in worth.items()
            if not (in_passing and server.host)
            and (due := _due(server, models, in_passing=in_passing))
            and is_allowed(server.host)
            and (key := _key(server)) is not None
        ]
        if not asked:
            return
        # asyncio.run is used, because async_to_sync would start a thread, and a process that ends
        # would have to wait for this thread.
        reports = asyncio.run(_ask_all(asked))
        for one, reported in zip(asked, reports, strict=True):
            store_reports(one.server.address, reported)
    except DatabaseError as error:
        logger.warning("windows of models were not kept: %s", type(error).__name__)


@dataclass(frozen=True)
class _Asked:
    """A server to ask, its key, and the models to ask it about."""

    server: Server
    key: str
    models: list[str]


async def _ask_all(asked: Sequence[_Asked]) -> list[dict[str, WindowReport | None]]:
    """Ask all servers at the same time, so that a server that does not answer delays no other
    server."""
    return await asyncio.gather(
        *(ask_windows(one.server.address, one.key, one.models) for one in asked)
    )


def _due(server: Server, models: list[str], *, in_passing: bool) -> list[str]:
    return models_to_ask_about(
        server.address,
        models,
        after=_AFTER_ELSEWHERE if server.host else _AFTER_HERE,
        after_ceiling=_AFTER_CEILING if in_passing else timedelta(0),
    )


def _key(server: Server) -> str | None:
    """Return the server's key, or None if the file of keys cannot be used."""
    try:
        return key_for(server)
    except KeysUnreadable:
        logger.warning("windows of models were not asked for: the file of keys cannot be used")
        return None


def _agents_of_chapters() -> Iterable[Agent]:
    """Return the agents with the models that chapters have set."""
    for chapter in Session.objects.exclude(model_settings={})[:_MOST_CHAPTERS]:
        yield from (in_chapter(agent, chapter) for agent in all_agents())
