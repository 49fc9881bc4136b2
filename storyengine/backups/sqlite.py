"""Backs up SQLite by its online backup API, while the program runs."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sessions.storage import sqlite_kind
from storyengine.backups.contents import Contents, Migration
from storyengine.stack.backup_errors import IF_IT_IS_DAMAGED, BackupError

_MAGIC = b"SQLite format 3\x00"
# A backup waits at most this many seconds until another process releases its lock on the database.
PATIENCE_SECONDS = 20.0
# The check of the database when the program starts takes at most this many seconds. This time is
# enough for a gigabyte on most machines. The daily backup checks a larger file to its end.
LOOKING_SECONDS = 5.0


class SqliteStore:
    ending = "sqlite3"

    def __init__(self, database: Path) -> None:
        self._database = database

    def dump(self, draft: Path) -> None:
        try:
            with (
                closing(_connect(self._database, "mode=rw")) as database,
                closing(_connect(draft, "mode=rw")) as copy,
            ):
                _copy(database, copy)
                # The copy is in WAL mode, as the database is. It leaves this mode here, because in
                # WAL mode it would consist of several files, and a backup must be a single file.
                copy.execute("PRAGMA journal_mode=DELETE")
            with closing(_connect(draft, "mode=ro&immutable=1")) as copy:
                _check(copy)
        except sqlite3.Error as error:
            raise BackupError(f"{self._database} could not be backed up: {error}.") from error

    @contextmanager
    def opened(self, backup: Path) -> Iterator[Contents]:
        with backup.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise BackupError(f"{backup} is no backup of Story Engine's SQLite database.")
        try:
            with closing(_connect(backup, "mode=ro&immutable=1")) as copy:
                _check(copy)
                _refuse_programs(copy)
                migrations = frozenset(_read_migrations(copy))
        except sqlite3.Error as error:
            raise BackupError(f"{backup} is damaged: {error}.") from error
        yield Contents(backup, migrations)

    def load(self, contents: Contents) -> None:
        try:
            with (
                closing(_connect(contents.source, "mode=ro&immutable=1")) as copy,
                closing(_connect(self._database, "mode=rwc")) as database,
            ):
                # SQLite copies in one transaction, so a crash leaves the old data in place.
                _copy(copy, database)
        except sqlite3.Error as error:
            raise BackupError(
                f"{self._database} could not be restored: {error}. {IF_IT_IS_DAMAGED}"
            ) from error


def look_at(database: Path, *, seconds: float = LOOKING_SECONDS) -> None:
    """Check the database file for at most `seconds`. Raises sqlite3.Error if the file is
    damaged."""
    with closing(_connect(database, "mode=rw")) as looking:
        limit = threading.Timer(seconds, looking.interrupt)
        limit.start()
        try:
            # The quick check takes a seventh of the time, because it does not compare each index
            # with its table.
            _check(looking, "quick_check")
        except sqlite3.OperationalError as error:
            if sqlite_kind(error) != sqlite3.SQLITE_INTERRUPT:
                raise
        finally:
            limit.cancel()
            limit.join()


def _connect(path: Path, options: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        isolation_level=None,
        timeout=PATIENCE_SECONDS,
    )


def _copy(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    def give_up(status: int, _remaining: int, _total: int) -> None:
        # The connection has waited PATIENCE_SECONDS for the lock. Without this error, Python would
        # try again without end.
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise BackupError(
                "The database is in use. Stop the program, and try again: nothing was changed."
            )

    # All pages are copied in one step, so that no process can write between two pages.
    source.backup(target, pages=-1, progress=give_up)


def _check(copy: sqlite3.Connection, check: str = "integrity_check") -> None:
    (verdict,) = copy.execute(f"PRAGMA {check}(1)").fetchone()
    if verdict != "ok":
        damage = sqlite3.DatabaseError(f"{check} says {verdict}")
        damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damage


def _refuse_programs(copy: sqlite3.Connection) -> None:
    """Refuse a database with triggers, views or virtual tables, because a trigger could run
    code."""
    (others,) = copy.execute(
        "SELECT count(*) FROM sqlite_master"
        " WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%'"
    ).fetchone()
    if others:
        raise BackupError(
            "The file has triggers, views or virtual tables: it is not Story Engine's."
        )


def _read_migrations(copy: sqlite3.Connection) -> Iterator[Migration]:
    tables = copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    if ("django_migrations",) in tables:
        yield from copy.execute("SELECT app, name FROM django_migrations")
