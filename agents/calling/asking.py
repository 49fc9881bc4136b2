"""Asks the server for the windows of its models. Only those models are asked about for which the
server's report has priority over settings and files."""

import asyncio
import logging
from datetime import timedelta

from django.conf import settings
from django.db import Error as DatabaseError

from agents.calling.consent import is_allowed
from agents.calling.model_access import models_worth_asking_about
from agents.facts.reported_windows import models_to_ask_about, store_reports
from agents.providers.windows import ask_windows
from agents.servers.choices import environment_server, refresh_choices

logger = logging.getLogger(__name__)

# How long a server's report is used before the server is asked again: a server on this machine, and
# any other server. A local server often gets another window, and asking it is free.
_AFTER_HERE, _AFTER_ELSEWHERE = timedelta(minutes=10), timedelta(days=1)
# How long a report is used if it has only a model's upper limit. This time is short, because some
# servers load a model at its first call, and know the real window only after that call.
_AFTER_CEILING = timedelta(minutes=1)


def ask_server(*, in_passing: bool = False) -> None:
    """Ask the server about the models whose windows are missing or old, and store its reports.

    If `in_passing` is True, no text is about to be sent, and only a server on this machine is
    asked. Another server is never asked before the GM has allowed calls to it.

    Call this function in workers and outside of transactions, because it may wait some seconds for
    the network. Failures are only logged.
    """
    try:
        refresh_choices()
    except DatabaseError as error:
        logger.warning("the choice of models was not read: %s", type(error).__name__)
        return
    models = models_worth_asking_about()
    host = environment_server().host
    if not models or (in_passing and host):
        return
    try:
        due = models_to_ask_about(
            models,
            after=_AFTER_ELSEWHERE if host else _AFTER_HERE,
            after_ceiling=_AFTER_CEILING if in_passing else timedelta(0),
        )
        if not due or not is_allowed(host):
            return
        # asyncio.run is used, because async_to_sync would start a thread, for which a process that
        # ends would have to wait.
        reports = asyncio.run(ask_windows(settings.OPENAI_BASE_URL, settings.OPENAI_API_KEY, due))
        store_reports(reports)
    except DatabaseError as error:
        logger.warning("windows of models were not kept: %s", type(error).__name__)
