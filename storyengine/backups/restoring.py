"""Replaces everything in the database by a backup. If this fails, the database is unchanged."""

import logging
from dataclasses import dataclass
from pathlib import Path

from django.db import Error as DatabaseError
from django.db import connection

from agents.running.heartbeats import DEAD_AFTER, end_heartbeats, is_alive, since_last_heartbeat
from storyengine.backups.contents import missing_migrations, refuse_what_is_not_ours
from storyengine.backups.folder import Reason, is_as_named, only_one_at_a_time
from storyengine.backups.taking import has_been_used, take, this_store
from storyengine.stack.backup_errors import IF_IT_IS_DAMAGED, BackupError, sentence_of
from storyengine.stack.storage_refusals import is_database_away

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Restored:
    # The backup of the data that was replaced. It is None if the database was empty, or if the
    # caller wanted no backup.
    replaced: Path | None
    missing_migrations: tuple[str, ...]


def restore(backup: Path, *, keeps_what_is_there: bool = True) -> Restored:
    """Restore the backup. If this fails, raise BackupError and leave the database unchanged.

    The present data is backed up first. The folder keeps this new backup as long as any other
    backup.
    """
    with only_one_at_a_time():
        _refuse_unreadable(backup)
        _refuse_beside_a_worker()
        store = this_store()
        with store.opened(backup) as contents:
            refuse_what_is_not_ours(backup, contents)
            replaced = _keep_what_is_there() if keeps_what_is_there else None
            # The check is repeated, because a worker may have started while the backup was read and
            # the present data was backed up.
            _refuse_beside_a_worker()
            # The connection was opened to the replaced data. The next query of this process opens a
            # new connection.
            connection.close()
            store.load(contents)
            _end_restored_heartbeats()
            return Restored(replaced, tuple(missing_migrations(contents.migrations)))


def _refuse_unreadable(backup: Path) -> None:
    try:
        if not backup.is_file():
            raise BackupError(f"{backup} is not a file.")
        if not backup.stat().st_size:
            raise BackupError(f"{backup} is empty.")
        if not is_as_named(backup):
            raise BackupError(
                f"{backup} is damaged: it is not what was written under its name "
                "(the SHA-256 differs)."
            )
    except OSError as error:
        raise BackupError(f"{backup} cannot be read: {error.strerror or error}.") from error


def _refuse_beside_a_worker() -> None:
    """Raise BackupError while a worker runs, because a worker would continue jobs of chapters that
    a restore replaces."""
    try:
        is_running = is_alive(since_last_heartbeat())
    except DatabaseError as error:
        if is_database_away(error):
            raise BackupError(
                "The database does not say whether a worker runs, so nothing was restored: "
                f"{sentence_of(error)} {IF_IT_IS_DAMAGED}"
            ) from error
        # The database has no table of heartbeats: it is new or damaged. So no worker is using it.
        return
    if is_running:
        raise BackupError(
            "A worker of the program is running, so nothing was restored. Stop the program first. "
            f"One that was killed is taken for dead after {DEAD_AFTER.seconds} seconds."
        )


def _end_restored_heartbeats() -> None:
    try:
        end_heartbeats()
    except DatabaseError as error:
        logger.warning(
            "workers of the backup count as running for up to %d seconds: %s",
            DEAD_AFTER.seconds,
            type(error).__name__,
        )


def _keep_what_is_there() -> Path | None:
    try:
        return take(Reason.BEFORE_RESTORE) if has_been_used() else None
    except (BackupError, DatabaseError) as error:
        raise BackupError(
            "What is there could not be backed up, so nothing was restored: "
            f"{sentence_of(error)} To give it up, add --without-backup."
        ) from error
