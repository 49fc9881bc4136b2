"""Why a file is not imported. The words of the file are never repeated."""

from sessions.exceptions import InvalidInput


class BadChapterFile(InvalidInput):
    title = "This file cannot be imported"

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}. Nothing was imported.")


class ChapterFileTooLarge(BadChapterFile):
    status = 413
    title = "Too large"
