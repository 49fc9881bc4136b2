"""The errors of files that cannot be imported. Their messages never repeat the story in a file."""

from typing import NoReturn

from sessions.exceptions import InvalidInput
from storyengine.settings.import_limits import Limits

_KEPT = "Nothing was imported, and your other chapters are as they were."
# The short messages that a page shows, one for each kind of fault in a file.
CHANGED = (
    "This is an exported chapter, but not as Story Engine wrote it: it was changed or damaged "
    f"afterwards. {_KEPT} Export the chapter again where it came from, and import that file."
)
NO_CHAPTER = (
    "This file is no exported chapter, or it was cut off on its way here. "
    f"{_KEPT} Choose a file that Export wrote; its name ends in .chapter.json."
)
ARCHIVE = (
    f"The file is an archive. {_KEPT} Unpack it, and choose the file in it whose name ends in "
    ".chapter.json."
)
NEWER = (
    "This chapter was exported by a newer Story Engine than this one. "
    f"{_KEPT} Update this program, then import the file again."
)
OLDER = (
    "This chapter was exported by an early Story Engine, whose files are no longer read. "
    f"{_KEPT} Import it with the program of commit 8940d93c, export it there, and import that file."
)
OTHER_MODE = (
    "This chapter is played in a way that is not installed here. "
    f"{_KEPT} Import it where that way to play is installed, or have it added here first."
)


_NOTHING = ". Nothing was imported."


class BadChapterFile(InvalidInput):
    title = "This file cannot be imported"

    def __init__(self, problem: str, in_short: str = CHANGED) -> None:
        super().__init__(f"{problem}{_NOTHING}")
        self.in_short = in_short


class BeyondLimits(BadChapterFile):
    """The error of a chapter that exceeds the limits of files."""

    def __init__(self, problem: str, limits: Limits) -> None:
        large = f"The chapter is larger than what can be imported here. {_KEPT}"
        way_on = f" {limits.way_on}." if limits.way_on else ""
        super().__init__(limits.refuse(problem), large + way_on)


class ChapterFileTooLarge(BeyondLimits):
    status = 413
    title = "Too large"


def refuse_story(place: str, problem: str) -> NoReturn:
    """Raise BadChapterFile with a message about this place of the story and the problem there."""
    raise BadChapterFile(f"story.{place} {problem}")


def in_story(error: BadChapterFile, at: int) -> BadChapterFile:
    """Return the error of a chapter with its place in the file of a story."""
    problem = str(error).removesuffix(_NOTHING)
    return BadChapterFile(f"story.chapters[{at}].{problem}", error.in_short)


def refuse(place: str, problem: str, in_short: str = CHANGED) -> NoReturn:
    """Raise BadChapterFile with a message about this place of the chapter and the problem there."""
    raise BadChapterFile(f"chapter.{place} {problem}", in_short)
