"""Checks of the broker, of the consent for the model server, and of the web server that runs the
program."""

import sys
from collections.abc import Iterator
from contextlib import closing, suppress

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Tags
from django.db import Error as DatabaseError
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.module_loading import import_string

from agents.calling.model_access import provider_hosts
from agents.calling.servers.choices import refresh_choices
from agents.models import ProviderConsent
from storyengine.operations.checks.configuration import check
from storyengine.operations.readiness import look_at_broker

_CONNECT_SECONDS = 2


@check(Tags.compatibility)
def check_server() -> Iterator[CheckMessage]:
    """Warn of a synchronous web server, in which each open stream of a reply occupies a thread."""
    if "runserver" in sys.argv[1:2] or getattr(settings, "WSGI_APPLICATION", None):
        yield checks.Warning(
            "The program is served by a synchronous server, where each reply that is "
            "being read occupies a thread.",
            hint="Start it with `python manage.py serve`, or leave out WSGI_APPLICATION.",
            id="storyengine.W009",
        )
    synchronous = [
        name
        for name in settings.MIDDLEWARE
        if not getattr(import_string(name), "async_capable", False)
    ]
    if synchronous:
        yield checks.Warning(
            f"Middleware that is synchronous only: {', '.join(synchronous)}.",
            hint="Each request would change threads for it. Make it async_capable.",
            id="storyengine.W010",
        )


@check(Tags.security, deploy=True)
def check_broker() -> Iterator[CheckMessage]:
    if not look_at_broker():
        yield checks.Warning(
            "The broker does not answer, so that no worker hears of a job.",
            hint="Start Redis, or correct CELERY_BROKER_URL. Jobs that were asked for are kept.",
            id="storyengine.W011",
        )


@check(Tags.security, deploy=True)
def check_consent() -> Iterator[CheckMessage]:
    _read_choices()
    for host in provider_hosts():
        if _is_allowed(host):
            continue
        yield checks.Info(
            f"Nobody has allowed yet that texts are sent to {host}; until then no agent answers.",
            hint="Open /consent/ in the program, or leave out STORYENGINE_LLM.",
            id="storyengine.I002",
        )


def _read_choices() -> None:
    """Read which servers the user has chosen. If the database fails, the environment's counts,
    because other checks warn of the database."""
    with suppress(DatabaseError):
        with closing(_impatient_connection()) as database:
            database.ensure_connection()
        refresh_choices()


def _is_allowed(host: str) -> bool:
    """Return whether texts may be sent to the host. If the database fails, return True, because
    other checks warn of the database."""
    table = ProviderConsent._meta.db_table
    try:
        with closing(_impatient_connection()) as database, database.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {table} WHERE host = %s", [host])  # noqa: S608
            return cursor.fetchone() is not None
    except DatabaseError:
        return True


def _impatient_connection() -> BaseDatabaseWrapper:
    """Return a connection that does not come from the pool. The pool would wait half a minute for a
    missing server."""
    own = connection.copy()
    if own.vendor == "postgresql":
        options = {**own.settings_dict["OPTIONS"], "connect_timeout": _CONNECT_SECONDS}
        options.pop("pool", None)
        own.settings_dict["OPTIONS"] = options
    return own
