"""Checks of values that several processes share: the key, and the connections of one PostgreSQL.
Each process makes them when it starts, and `check --deploy` makes them too."""

from collections.abc import Iterator

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Tags
from django.db import Error as DatabaseError
from django.db import connection

from agents.running.heartbeats import key_fingerprint, most_connections, others_alive
from storyengine.operations.checks.configuration import check

# The connections that are left for backups, for migrations and for the operator.
_KEPT_FREE = 5


@check(Tags.security, deploy=True)
def check_processes() -> Iterator[CheckMessage]:
    try:
        yield from find_faults()
    except DatabaseError:
        # Other checks warn of a database that cannot be reached.
        return


def find_faults(name: str = "") -> Iterator[CheckMessage]:
    """Yield the faults of this process compared with the other living processes. `name` is the name
    of this process. Raises an error of the database if it cannot be reached."""
    yield from _check_keys(name)
    if connection.vendor == "postgresql":
        yield from _check_way()
        yield from _check_connections(name)


def _check_keys(name: str) -> Iterator[CheckMessage]:
    own = key_fingerprint()
    others = [one.name for one in others_alive(name) if one.key_fingerprint != own]
    if others:
        yield checks.Warning(
            f"{', '.join(others)} and this process have different values of SECRET_KEY.",
            hint="Logins and forms of one process are refused by the other. Set SECRET_KEY to the "
            "same value on all machines.",
            id="storyengine.W020",
        )


def _check_way() -> Iterator[CheckMessage]:
    """Warn if the connection leads to pgbouncer and the settings do not say so, or if backups would
    go through it."""
    if not connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
        if _goes_through_pooler():
            yield checks.Warning(
                "DATABASE_URL seems to lead to pgbouncer, and STORYENGINE_PGBOUNCER is not set.",
                hint="In transaction mode, long transcripts and downloads fail now and then. Set "
                "it to true.",
                id="storyengine.W022",
            )
    elif settings.DIRECT_DATABASE is None:
        yield checks.Warning(
            "STORYENGINE_DIRECT_DATABASE_URL is not set, so that backups go through pgbouncer.",
            hint="pg_dump changes settings of its connection, which other processes get next. Set "
            "it to the address of PostgreSQL itself.",
            id="storyengine.W023",
        )


def _goes_through_pooler() -> bool:
    """Return whether a pooler is between this process and the server. A pooler tells clients other
    process ids than the server."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [pid] = cursor.fetchone()
        told = cursor.connection.info.backend_pid
    return bool(pid != told)


def _check_connections(name: str) -> Iterator[CheckMessage]:
    if connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
        # The processes connect to pgbouncer, which has limits of its own.
        return
    # A process without a name is a command. Its connections are few and soon closed.
    others = others_alive(name)
    wanted = sum(one.most_connections for one in others) + (most_connections() if name else 0)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('max_connections')::int "
            "- current_setting('superuser_reserved_connections')::int"
        )
        [allowed] = cursor.fetchone()
    processes = len(others) + bool(name)
    if wanted + _KEPT_FREE > allowed:
        yield checks.Warning(
            f"The {processes} processes that are alive may open {wanted} connections to "
            f"PostgreSQL, which allows {allowed}; {_KEPT_FREE} should stay free.",
            hint="Lower STORYENGINE_DATABASE_POOL, raise max_connections of the server, or put "
            "pgbouncer in front of it (see docs/deployment.md).",
            id="storyengine.W021",
        )
