"""Makes the database, the logs, the queue and the secret key private, so that only their owner can
read them."""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
# The endings of a SQLite database's name and of the files that SQLite keeps beside the database.
_BESIDE = ("", "-wal", "-shm", "-journal")
_SQLITE = "django.db.backends.sqlite3"


def keep_files_private(data_folder: Path, database: Mapping[str, Any]) -> None:
    """Make the program's files private, both the existing files and those that this process will
    create.

    The permissions of a data folder that exists already are not changed, because the folder may
    contain files of other programs.
    """
    os.umask(_OTHERS)
    for path in files_for_others(data_folder, database):
        # A link is not changed, because it may lead to a file of another program. A file of another
        # user cannot be changed, but storyengine.operations.checks.configuration warns of it.
        if not path.is_symlink():
            with suppress(OSError):
                path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS)


def files_for_others(data_folder: Path, database: Mapping[str, Any]) -> list[Path]:
    """Return those files of the program that users other than the owner can read or change."""
    return [path for path in _files(data_folder, database) if _mode_of(path) & _OTHERS]


def _files(data_folder: Path, database: Mapping[str, Any]) -> Iterator[Path]:
    if database["ENGINE"] == _SQLITE:
        yield from (Path(f"{database['NAME']}{ending}") for ending in _BESIDE)
    yield data_folder / "secret-key"
    for name in ("logs", "queue"):
        yield data_folder / name
        yield from (data_folder / name).glob("*")


def _mode_of(path: Path) -> int:
    """Return the file's type and permissions as the system gives them, or 0 if the file does not
    exist."""
    try:
        return path.stat().st_mode
    except OSError:
        return 0
