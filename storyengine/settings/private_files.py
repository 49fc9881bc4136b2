"""What lies in files is its owner's alone: the database, the logs, the queue and the secret key."""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
# What SQLite keeps beside a database.
_BESIDE = ("", "-wal", "-shm", "-journal")
_SQLITE = "django.db.backends.sqlite3"


def keep_files_private(data_folder: Path, database: Mapping[str, Any]) -> None:
    """Those that this process makes from now on, and those that were there before.

    A data folder that was there before keeps its mode: it may hold more than this program's files.
    """
    os.umask(_OTHERS)
    for path in files_for_others(data_folder, database):
        # Of another user, or on a disk that is only read: storyengine.checks names it. A link may
        # lead to what is not this program's.
        if not path.is_symlink():
            with suppress(OSError):
                path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS)


def files_for_others(data_folder: Path, database: Mapping[str, Any]) -> list[Path]:
    """Those that are not their owner's alone."""
    return [path for path in _files(data_folder, database) if _mode_of(path) & _OTHERS]


def _files(data_folder: Path, database: Mapping[str, Any]) -> Iterator[Path]:
    if database["ENGINE"] == _SQLITE:
        yield from (Path(f"{database['NAME']}{ending}") for ending in _BESIDE)
    yield data_folder / "secret-key"
    for name in ("logs", "queue"):
        yield data_folder / name
        yield from (data_folder / name).glob("*")


def _mode_of(path: Path) -> int:
    """0 for a file that is not there, or no longer."""
    try:
        return path.stat().st_mode
    except OSError:
        return 0
