"""The errors for files that cannot be imported. Their messages never repeat words of the file."""

from typing import NoReturn

from sessions.exceptions import InvalidInput


class BadChapterFile(InvalidInput):
    title = "This file cannot be imported"

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}. Nothing was imported.")


class ChapterFileTooLarge(BadChapterFile):
    status = 413
    title = "Too large"


def refuse(place: str, problem: str) -> NoReturn:
    """Raise BadChapterFile for a problem at this place of the chapter."""
    raise BadChapterFile(f"chapter.{place} {problem}")
