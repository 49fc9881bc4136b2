from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from storyengine.backups.restoring import restore
from storyengine.settings.own_commands import own_command
from storyengine.stack.backup_errors import BackupError


class Command(BaseCommand):
    help = (
        "Put a backup in the place of all that the database holds, which is backed up first. "
        "Stop the program before, and restore only what you made yourself."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="a backup that `backup` made")
        parser.add_argument(
            "--without-backup",
            action="store_true",
            help="give up what is there, for a database that is too damaged to be backed up",
        )

    def handle(self, *args: Any, file: Path, without_backup: bool, **options: Any) -> None:
        try:
            restored = restore(file, keeps_what_is_there=not without_backup)
        except BackupError as error:
            raise CommandError(str(error)) from error
        if restored.replaced:
            self.stdout.write(f"What was there is kept as {restored.replaced}")
        self.stdout.write(f"{file} is restored.")
        if restored.missing_migrations:
            self.stdout.write(
                f"It is older than this program by {len(restored.missing_migrations)} changes to "
                f"the tables: run `{own_command('migrate')}`, or start the program, which does so."
            )
