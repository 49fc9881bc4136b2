from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from sessions.exceptions import ChapterError
from sessions.models import Session
from storyengine.exchange.importing import import_chapter
from storyengine.exchange.limits import OF_THE_OPERATOR
from storyengine.exchange.reading import check_size
from storyengine.stack.own_commands import own_command


class Command(BaseCommand):
    help = (
        "Import an exported chapter under a new id, also one that is too large for the page: up to "
        f"{OF_THE_OPERATOR.file_bytes:,} bytes. All of it, or nothing when the file is refused."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="what an export of this or another one wrote")

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        chapter = _import(file)
        self.stdout.write(f"The chapter is imported under the id {chapter.pk}")


def _import(file: Path) -> Session:
    try:
        check_size(file.stat().st_size, OF_THE_OPERATOR)
        return import_chapter(file.read_bytes(), OF_THE_OPERATOR)
    except ChapterError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(
            f"{file} cannot be read: {error.strerror}. Nothing was imported."
        ) from error
    except DatabaseError as error:
        # The database's message is left out, because it may quote the story.
        raise CommandError(
            f"The database refused the chapter ({type(error).__name__}). Nothing was imported. "
            f"See whether it runs and has the tables (`{own_command('migrate')}`), then try again."
        ) from None
