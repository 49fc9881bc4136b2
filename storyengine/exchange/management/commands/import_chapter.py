from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from sessions.exceptions import ChapterError
from sessions.models import Session, Story
from storyengine.exchange.file_reading import check_size, is_story
from storyengine.exchange.importing import import_chapter
from storyengine.exchange.story_importing import import_story
from storyengine.settings.import_limits import OF_THE_OPERATOR
from storyengine.settings.own_commands import own_command


class Command(BaseCommand):
    help = (
        "Import an exported chapter or story under new ids, also one too large for the page: up to "
        f"{OF_THE_OPERATOR.file_bytes:,} bytes. All of it, or nothing when the file is refused."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="what an export of this or another one wrote")

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        imported = _import(file)
        kind = "story" if isinstance(imported, Story) else "chapter"
        self.stdout.write(f"The {kind} is imported under the id {imported.pk}")


def _import(file: Path) -> Session | Story:
    """Import the chapter or the story. The file says which of them it is."""
    try:
        check_size(file.stat().st_size, OF_THE_OPERATOR)
        content = file.read_bytes()
        if is_story(content):
            return import_story(content, OF_THE_OPERATOR)
        return import_chapter(content, OF_THE_OPERATOR)
    except ChapterError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(
            f"{file} cannot be read: {error.strerror}. Nothing was imported."
        ) from error
    except DatabaseError as error:
        # The database's message is left out, because it may quote the story.
        raise CommandError(
            f"The database refused the file ({type(error).__name__}). Nothing was imported. "
            f"See whether it runs and has the tables (`{own_command('migrate')}`), then try again."
        ) from None
