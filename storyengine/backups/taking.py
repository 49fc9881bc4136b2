"""Makes backups. Only a complete and checked file becomes a backup."""

from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from sessions.models import Session
from sessions.storage import database_file
from storyengine.backups.contents import Store, refuse_from_before
from storyengine.backups.folder import (
    Reason,
    draft,
    is_due,
    keep,
    only_one_at_a_time,
    throw_away_old_ones,
)
from storyengine.backups.postgresql import PostgresqlStore
from storyengine.backups.sqlite import SqliteStore
from storyengine.stack.backup_errors import BackupError


def back_up(reason: Reason) -> Path:
    """Wait until no other process makes a backup. Then make a backup, and delete old backups."""
    with only_one_at_a_time():
        return _back_up_and_throw_away(reason)


def back_up_if_due() -> Path | None:
    """Make the daily backup if it is due. Do nothing while another process makes a backup."""
    with only_one_at_a_time(wait=False) as is_held:
        if not is_held or not is_due(has_chapters=has_chapters()):
            return None
        return _back_up_and_throw_away(Reason.DAILY)


def back_up_before_migrating(*, to_latest: bool = True) -> Path | None:
    """Make a backup if migrations would change a database that is in use.

    Raises FromBefore if the migrations cannot change it, because an earlier program made it.
    `to_latest` is False if the user names a migration as the target. Such a command may drop
    tables, so the backup is always made.
    """
    refuse_from_before("The database", MigrationRecorder(connection).applied_migrations())
    if not has_been_used() or (to_latest and not _has_older_tables()):
        return None
    return back_up(Reason.BEFORE_MIGRATION)


def take(reason: Reason) -> Path:
    """Make a backup. The caller must have the lock of `only_one_at_a_time`."""
    store = this_store()
    had_chapters = has_chapters()
    with draft() as path:
        store.dump(path)
        # The database is asked for chapters before and after the copy, because a chapter may have
        # been added or deleted meanwhile.
        return keep(path, reason, store.ending, has_chapters=had_chapters or has_chapters())


def has_been_used() -> bool:
    return bool(MigrationRecorder(connection).applied_migrations())


def has_chapters() -> bool:
    return (
        Session._meta.db_table in connection.introspection.table_names()
        and Session.objects.exists()
    )


def this_store() -> Store:
    if file := database_file():
        return SqliteStore(file)
    if connection.vendor == "postgresql":
        return PostgresqlStore(settings.DIRECT_DATABASE or connection.settings_dict)
    raise BackupError(f"There are no backups of {connection.display_name} here.")


def _has_older_tables() -> bool:
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def _back_up_and_throw_away(reason: Reason) -> Path:
    path = take(reason)
    throw_away_old_ones()
    return path
