"""What a request is answered while the database is away, its disk full or its file damaged."""

import logging
import sqlite3
import sys
import time

from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.defaults import server_error

from agents.storage import describe, is_damaged, is_disk_full, sqlite_kind
from sessions.exceptions import ChapterError
from storyengine.backups.exceptions import say_unreadable

logger = logging.getLogger(__name__)

# What may be about the database or a disk, and is a bug otherwise.
STORAGE_ERRORS = (DatabaseError, OSError)
# SQLite calls also a mistake in a query, or a missing table, an OperationalError.
_SQLITE_AWAY = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}
# When a request last met it, by time.monotonic(): a database elsewhere tells in no other way.
_met_full_disk_at = float("-inf")


class DatabaseAway(ChapterError):
    status = 503
    title = "The database is away"
    retry_seconds = 5

    def __init__(self) -> None:
        super().__init__(
            "The database does not answer at the moment. Nothing is kept by halves; try again in a "
            "few seconds."
        )


class DiskFull(ChapterError):
    """Somebody has to make room: to wait and to ask again does not help by itself."""

    status = 507
    title = "The disk is full"

    def __init__(self) -> None:
        super().__init__(
            "The disk that chapters are stored on is full, so that nothing can be stored. What was "
            "stored before is kept. Make room on it, then try again; nothing has to be restarted."
        )


class DatabaseDamaged(ChapterError):
    status = 503
    title = "The database cannot be read"

    def __init__(self, error: BaseException) -> None:
        super().__init__(say_unreadable(error))


def is_database_away(error: BaseException | None) -> bool:
    """Not so where it answers, and what it says is of a query, a table or a damage."""
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    cause = error.__cause__
    return not isinstance(cause, sqlite3.Error) or sqlite_kind(cause) in _SQLITE_AWAY


def find_storage_refusal(error: BaseException | None) -> ChapterError | None:
    """The refusal for this error; None where it is something else, such as a bug."""
    global _met_full_disk_at
    if error is None:
        return None
    if is_disk_full(error):
        _met_full_disk_at = time.monotonic()
        refusal: ChapterError = DiskFull()
    elif is_damaged(error):
        refusal = DatabaseDamaged(error)
    elif is_database_away(error):
        refusal = DatabaseAway()
    else:
        return None
    logger.warning("answered with %d: %s", refusal.status, describe(error))
    return refusal


def has_met_full_disk(*, within_seconds: float) -> bool:
    """Whether a request of this process has."""
    return time.monotonic() - _met_full_disk_at < within_seconds


def answer_error(request: HttpRequest) -> HttpResponse:
    """Django's handler of what nobody caught, such as an error of the middleware."""
    refusal = find_storage_refusal(sys.exception())
    if refusal is None:
        return server_error(request)
    response = render(request, "storage_refusal.html", {"error": refusal}, status=refusal.status)
    for name, value in refusal.headers.items():
        response[name] = value
    return response
