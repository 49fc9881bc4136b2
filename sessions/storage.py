"""Finds out whether the disk is full and whether the database is damaged."""

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.db import connection

# With less free space, SQLite's log may have no room for the pages of one prompt.
LEAST_FREE_BYTES = 1_000_000
_FULL = {errno.ENOSPC, errno.EDQUOT}
# PostgreSQL's codes for disk_full, and in the next line for data_corrupted and index_corrupted.
_STATE_FULL = "53100"
_STATES_DAMAGED = {"XX001", "XX002"}
_SQLITE_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
# The errors of SQLite that may mean that the disk has no room for a file or for its growth.
_SQLITE_MAY_BE_FULL = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}


def database_file() -> Path | None:
    """Return the file of the SQLite database, or None for another database."""
    return Path(connection.settings_dict["NAME"]) if connection.vendor == "sqlite" else None


def find_full_folder() -> Path | None:
    """Return a folder that the program writes to during play and whose disk is full, or None if
    there is no such folder."""
    folders = [settings.DATA_FOLDER]
    if file := database_file():
        folders.append(file.parent)
    there = (folder for folder in folders if folder.exists())
    return next((folder for folder in there if free_bytes(folder) < LEAST_FREE_BYTES), None)


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def is_disk_full(error: BaseException | None) -> bool:
    """Return whether the error, or one of its causes, says that a disk is full."""
    return any(map(_says_full, _causes(error)))


def is_damaged(error: BaseException | None) -> bool:
    """Return whether this error reports a damaged database."""
    return any(
        sqlite_kind(cause) in _SQLITE_DAMAGED or _state(cause) in _STATES_DAMAGED
        for cause in _causes(error)
    )


def describe(error: BaseException) -> str:
    """Return a description of an error for the log. The error's own message is left out, because it
    may repeat text of a story."""
    if is_disk_full(error):
        return "the disk is full"
    if is_damaged(error):
        return "the database is damaged"
    cause = error.__cause__
    state = _state(cause) or getattr(cause, "sqlite_errorname", None)
    return f"{type(error).__name__} {state or ''}".rstrip()


def sqlite_kind(error: BaseException | None) -> int:
    """Return the low byte of the error's code in SQLite, or 0 for an error without a code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _says_full(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in _FULL
    if sqlite_kind(error) in _SQLITE_MAY_BE_FULL:
        return find_full_folder() is not None
    return sqlite_kind(error) == sqlite3.SQLITE_FULL or _state(error) == _STATE_FULL


def _state(error: BaseException | None) -> str | None:
    return getattr(error, "sqlstate", None)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
