"""The refusals that answer requests while the database cannot be reached, a disk is full, or the
database is damaged."""

import logging
import sqlite3
import sys
import time

from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.defaults import server_error

from sessions.exceptions import ChapterError
from sessions.storage import describe, is_damaged, is_disk_full, sqlite_kind
from storyengine.stack.backup_errors import say_unreadable

logger = logging.getLogger(__name__)

# The classes of errors that come from a database or a disk. Bugs may raise some of these classes
# too; `find_storage_refusal` tells them apart.
STORAGE_ERRORS = (DatabaseError, OSError)
# SQLite's error codes for a database that cannot be reached. The class OperationalError does not
# show this, because SQLite raises it also for a faulty query or a missing table.
_SQLITE_AWAY = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}
# The value of time.monotonic() when a request last failed because of a full disk. If the disk is on
# another machine, only such a failure shows that the disk is full.
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
    """The refusal because of a full disk. It has no `retry_seconds`, because waiting does not make
    room."""

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
    """Return whether the error means that the database does not answer.

    Errors about a query, a table or damage come from a database that answers.
    """
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    cause = error.__cause__
    return not isinstance(cause, sqlite3.Error) or sqlite_kind(cause) in _SQLITE_AWAY


def find_storage_refusal(error: BaseException | None) -> ChapterError | None:
    """Return the refusal for an error of the database or a disk. Returns None for any other error,
    which is a bug."""
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
    """Return whether, within this number of seconds, a request of this process has failed because
    of a full disk."""
    return time.monotonic() - _met_full_disk_at < within_seconds


def answer_error(request: HttpRequest) -> HttpResponse:
    """Answer a request that failed with an error outside of the views, for example in the
    middleware. Django calls this function."""
    refusal = find_storage_refusal(sys.exception())
    if refusal is None:
        return server_error(request)
    response = render(request, "storage_refusal.html", {"error": refusal}, status=refusal.status)
    for name, value in refusal.headers.items():
        response[name] = value
    return response
