import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from storyengine.backups.folder import Reason
from storyengine.backups.taking import back_up, back_up_if_due
from storyengine.stack.backup_errors import BackupError

# The seconds between two checks whether a backup is due. A failed backup is tried again at the next
# check.
LOOK_EVERY_SECONDS = 300.0


class Command(BaseCommand):
    help = "Back the database up into the folder STORYENGINE_BACKUPS, while the program runs."
    # The checks of the settings are left out, because a backup must be possible even if some
    # settings are faulty.
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--daily", action="store_true", help="stay, and make one whenever a day has passed"
        )

    def handle(self, *args: Any, daily: bool, **options: Any) -> None:
        if daily:
            self._stay()
        try:
            self.stdout.write(f"The backup is {back_up(Reason.ASKED_FOR)}")
        except BackupError as error:
            raise CommandError(str(error)) from error

    def _stay(self) -> None:
        while True:
            try:
                if path := back_up_if_due():
                    self.stdout.write(f"The backup is {path}")
                    self.stdout.flush()
            except BackupError as error:
                self.stderr.write(str(error))
            time.sleep(LOOK_EVERY_SECONDS)
