"""Checks the storage before the program starts, so that the program neither harms the database nor
fails later."""

import shlex
import sqlite3
from itertools import count

from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from sessions.storage import database_file, find_full_folder, is_damaged, is_disk_full
from storyengine.backups.contents import (
    refuse_from_before,
    refuse_what_is_not_ours,
    unknown_migrations,
)
from storyengine.backups.folder import Backup, Reason, backups
from storyengine.backups.sqlite import look_at
from storyengine.backups.taking import has_been_used, this_store
from storyengine.settings.own_commands import own_command, path_as_typed
from storyengine.stack.backup_errors import DISK_IS_FULL, MAKE_ROOM, BackupError, say_unreadable

_HOW = "docs/deployment.md has the commands."


def check_storage() -> None:
    """Raise BackupError if the storage has a fault. The message says what to do. Nothing is
    changed."""
    if folder := find_full_folder():
        raise BackupError(
            f"The disk of {folder} is full, so that nothing could be stored. {MAKE_ROOM}"
        )
    try:
        if _is_unused():
            _refuse_beside_backups()
            return
        if file := database_file():
            look_at(file)
        _refuse_other_tables()
    except (DatabaseError, sqlite3.Error) as error:
        raise BackupError(_say_why(error)) from error


def _say_why(error: BaseException) -> str:
    if is_disk_full(error):
        return DISK_IS_FULL
    newest, file = _newest_with_chapters(), database_file()
    if newest is None or file is None or not is_damaged(error):
        return say_unreadable(error)
    # A restore backs up the present data first, which is impossible for a damaged file. So the user
    # has to move the damaged file to another folder first.
    folders = (file.with_name(f"damaged-{number}") for number in count(1))
    aside = shlex.quote(path_as_typed(next(folder for folder in folders if not folder.exists())))
    return (
        f"{say_unreadable(error)} The newest backup with chapters was made on {newest.when}. To go "
        "back to it, and keep the damaged files aside, run "
        f"`mkdir {aside} && mv {shlex.quote(path_as_typed(file))}* {aside} && "
        f"{own_command('restore', newest.path)}`. Then start again."
    )


def _is_unused() -> bool:
    # The file is checked before any query. A query would open the file, and SQLite would then
    # delete the log beside an empty file.
    file = database_file()
    if file and not (file.exists() and file.stat().st_size):
        return True
    return not has_been_used()


def _refuse_beside_backups() -> None:
    """Raise BackupError if there are backups with chapters. This function is called for an empty
    database, whose chapters may have been lost."""
    if newest := _newest_with_chapters():
        raise BackupError(
            "The database is empty, though there are backups of one with chapters. It was left as "
            f"it is. To have the chapters back as they were on {newest.when}, run "
            f"`{own_command('restore', newest.path)}`. To begin with an empty library, run "
            f"`{own_command('migrate')}`. Then start again. {_HOW}"
        )


def _newest_with_chapters() -> Backup | None:
    return next((backup for backup in backups() if backup.has_chapters), None)


def _refuse_other_tables() -> None:
    applied = MigrationRecorder(connection).applied_migrations()
    refuse_from_before("The database", applied)
    unknown = unknown_migrations(applied)
    if not unknown:
        return
    earlier = _newest_before_an_upgrade()
    restore = (
        f", on {earlier.when}: run `{own_command('restore', earlier.path)}`" if earlier else ""
    )
    raise BackupError(
        f"The database was written by a newer Story Engine, with {', '.join(unknown)}. It was left "
        "as it is. Start that version or a later one; or go back to the backup that was made "
        f"before the upgrade{restore}, and what was written since is in the backup that this "
        f"makes. {_HOW}"
    )


def _newest_before_an_upgrade() -> Backup | None:
    """Return the newest backup that was made before an upgrade and that this program can restore,
    or None."""
    for backup in backups():
        if backup.reason != Reason.BEFORE_MIGRATION:
            continue
        try:
            with this_store().opened(backup.path) as contents:
                refuse_what_is_not_ours(backup.path, contents)
        except BackupError:
            continue
        return backup
    return None
