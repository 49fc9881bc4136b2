from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import DEFAULT_DB_ALIAS, DatabaseError

from sessions.storage import is_disk_full
from storyengine.backups.taking import back_up_before_migrating
from storyengine.stack.backup_errors import (
    DISK_IS_FULL,
    BackupError,
    FromBefore,
    ToolMissing,
    say_unreadable,
)


class Command(migrate.Command):
    """Django's command `migrate`. Before it changes a database that is in use, it makes a
    backup."""

    def handle(self, *args: Any, **options: Any) -> None:
        only_looks = options["plan"] or options["check_unapplied"]
        if not only_looks and options["database"] == DEFAULT_DB_ALIAS:
            self._back_up(to_latest=options["app_label"] is None)
        try:
            super().handle(*args, **options)
        except DatabaseError as error:
            if not is_disk_full(error):
                raise
            raise CommandError(DISK_IS_FULL) from error

    def _back_up(self, *, to_latest: bool) -> None:
        """Make a backup, and report it on stderr, because the Makefile passes the stdout of
        `prepare` to honcho."""
        try:
            if path := back_up_before_migrating(to_latest=to_latest):
                self.stderr.write(f"The tables change; the database as it was is in {path}")
        except FromBefore as error:
            raise CommandError(str(error)) from error
        except ToolMissing as error:
            self.stderr.write(f"The tables change without a backup: {error}")
        except BackupError as error:
            raise CommandError(
                f"Nothing was changed, because there is no backup: {error}"
            ) from error
        except DatabaseError as error:
            raise CommandError(say_unreadable(error)) from error
