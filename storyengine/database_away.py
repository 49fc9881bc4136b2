"""What a request is answered while the database is away: try again, rather than an error."""

import logging
import sqlite3
import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.defaults import server_error

from sessions.exceptions import ChapterError

logger = logging.getLogger(__name__)

# What Django raises, also for the database's want of memory or room, and for a lock.
DATABASE_ERRORS = (OperationalError, InterfaceError)
# SQLite calls also a mistake in a query, or a missing table, an OperationalError.
_SQLITE_AWAY = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}


class DatabaseAway(ChapterError):
    status = 503
    title = "The database is away"
    retry_seconds = 5

    def __init__(self) -> None:
        super().__init__(
            "The database does not answer at the moment. Nothing is kept by halves; try again in a "
            "few seconds."
        )


def is_database_away(error: BaseException | None) -> bool:
    """Not so where it answers, and what it says is of a query, a table or a damage."""
    if not isinstance(error, DATABASE_ERRORS):
        return False
    cause = error.__cause__
    return not isinstance(cause, sqlite3.Error) or _kind_of(cause) in _SQLITE_AWAY


def find_database_away(error: BaseException | None) -> DatabaseAway | None:
    """The refusal for this error; None where it is something else, such as a bug."""
    if error is None or not is_database_away(error):
        return None
    cause = error.__cause__
    # Not its message: a database may repeat there what it was sent.
    state = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None)
    logger.warning("the database is away: %s %s", type(error).__name__, state or "")
    return DatabaseAway()


def _kind_of(error: sqlite3.Error) -> int:
    """The low byte of SQLite's code; 0 for errors of Python's own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def answer_error(request: HttpRequest) -> HttpResponse:
    """Django's handler of what nobody caught, such as an error of the middleware."""
    away = find_database_away(sys.exception())
    if away is None:
        return server_error(request)
    response = render(request, "503.html", {"error": away}, status=away.status)
    for name, value in away.headers.items():
        response[name] = value
    return response
