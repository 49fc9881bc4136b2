from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from agents.calling.servers.choices import runs_embedded
from agents.llm.embedded.report import Report
from storyengine.access.listening import CannotListen, open_listeners
from storyengine.backups.starting import check_storage
from storyengine.stack.backup_errors import BackupError


class Command(BaseCommand):
    help = (
        "Bring the database up to date, after a backup if that changes it, announce the model, and "
        "look whether the port is free. "
        "Writes the arguments with which honcho starts what this configuration needs."
    )

    def handle(self, *args: Any, **options: Any) -> str:
        try:
            for listener in open_listeners():
                listener.close()
        except CannotListen as error:
            raise CommandError(str(error)) from error
        try:
            check_storage()
        except BackupError as error:
            raise CommandError(str(error)) from error
        # If there is something to change, `migrate` makes a backup first (see storyengine.backups).
        call_command("migrate", interactive=False, verbosity=0)
        processes = ["web", "worker"]
        if runs_embedded():
            processes.append("model")
            # The worker may start before the model's process. This row tells the worker that the
            # model is being started. Without the row, the worker would fail jobs because there is
            # no model.
            Report(settings.EMBEDDED_MODEL).show_start()
        # Without the option `--port`, honcho would choose other ports.
        return f"--port {settings.PORT} {' '.join(processes)}"
