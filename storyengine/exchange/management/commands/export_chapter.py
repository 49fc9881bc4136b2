import os
import uuid
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from sessions.exceptions import UnknownChapter
from storyengine.exchange.exporting import export_chapter


class Command(BaseCommand):
    help = "Write a chapter into a new file, as `Export` on the page does."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("session_id", type=uuid.UUID, help="as in the chapter's address")
        parser.add_argument("file", type=Path, help="must not be there yet")

    def handle(self, *args: Any, session_id: uuid.UUID, file: Path, **options: Any) -> None:
        try:
            _write(file, export_chapter(session_id).to_json())
        except UnknownChapter as error:
            raise CommandError(str(error)) from error
        except FileExistsError as error:
            raise CommandError(f"{file} is there already, and was kept. Name another.") from error
        except OSError as error:
            raise CommandError(
                f"{file} cannot be written: {error.strerror}. The chapter is as it was."
            ) from error
        self.stdout.write(f"The chapter is exported to {file}")


def _write(file: Path, content: bytes) -> None:
    """Write the file completely or not at all. Only its owner can read the file."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as out:
        try:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        except OSError:
            file.unlink(missing_ok=True)
            raise
