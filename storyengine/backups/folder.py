"""The folder of backups. Only one process at a time adds a file, and each file is complete.

The name of a file has the time and the reason of the backup, and the beginning of the file's
SHA-256, which shows whether a copy was damaged:

storyengine-20261122T031500.123456Z-daily-0f3a5c7e9b1d2f40.sqlite3

If the database had no chapters, the reason ends with `-empty`. Such backups are counted separately,
so that they never displace a backup with chapters.
"""

import fcntl
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from django.conf import settings
from django.utils.timesince import timesince

from storyengine.stack.backup_errors import BackupError

ONE_DAY = timedelta(days=1)
# The beginning of the name of an unfinished backup. A process that was killed may have left such a
# file, which is found by this beginning.
_DRAFT = ".unfinished-"
_EMPTY = "-empty"
_TIME = "%Y%m%dT%H%M%S.%fZ"
_NAME = re.compile(
    r"storyengine-(?P<time>\d{8}T\d{6}\.\d{6}Z)-(?P<reason>[a-z-]+)-(?P<hash>[0-9a-f]{16})"
    r"\.(?P<ending>sqlite3|dump)"
)


class Reason(StrEnum):
    ASKED_FOR = "asked-for"
    DAILY = "daily"
    BEFORE_MIGRATION = "before-migration"
    BEFORE_RESTORE = "before-restore"


@dataclass(frozen=True)
class Backup:
    path: Path
    made_at: datetime
    # The reason for the backup, one of the values of Reason.
    reason: str = Reason.DAILY
    has_chapters: bool = True

    @property
    def day(self) -> date:
        return self.made_at.date()

    @property
    def when(self) -> str:
        """The time of the backup in a form such as "22 November 2026 at 03:15 UTC, 2 days ago"."""
        ago = timesince(self.made_at, depth=1).replace("\N{NO-BREAK SPACE}", " ")
        return f"{self.made_at:%-d %B %Y at %H:%M} UTC, {ago} ago"


@contextmanager
def only_one_at_a_time(*, wait: bool = True) -> Iterator[bool]:
    """Lock the folder during the `with` block, and yield True.

    If another process has the lock, wait until it releases the lock. With `wait=False`, do not wait
    but yield False. The system releases the lock of a process that dies.
    """
    folder = _made_folder()
    try:
        lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BackupError(_trouble(error)) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        yield False
        return
    try:
        for left_over in folder.glob(f"{_DRAFT}*"):
            left_over.unlink(missing_ok=True)
        yield True
    finally:
        os.close(lock)


@contextmanager
def draft() -> Iterator[Path]:
    """Create an empty private file in the folder. After the `with` block, delete the file, unless
    `keep` has given it another name."""
    try:
        handle, name = tempfile.mkstemp(prefix=_DRAFT, dir=_made_folder())
        os.close(handle)
        path = Path(name)
        try:
            yield path
        finally:
            for rest in path.parent.glob(f"{path.name}*"):
                rest.unlink(missing_ok=True)
    except OSError as error:
        raise BackupError(_trouble(error)) from error


def keep(path: Path, reason: Reason, ending: str, *, has_chapters: bool) -> Path:
    """Write the file of a complete and checked backup to the disk, and then give the file the name
    of a backup."""
    with path.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        os.fsync(file.fileno())
    time = datetime.now(UTC).strftime(_TIME)
    why = reason if has_chapters else f"{reason}{_EMPTY}"
    kept = path.with_name(f"storyengine-{time}-{why}-{checksum}.{ending}")
    path.replace(kept)
    _write_folder(path.parent)
    return kept


def backups() -> list[Backup]:
    """Return the backups in the folder, with the newest first."""
    folder: Path = settings.BACKUPS_FOLDER
    found = []
    for path in folder.iterdir() if folder.exists() else ():
        if (match := _NAME.fullmatch(path.name)) and path.is_file():
            made_at = datetime.strptime(match["time"], _TIME).replace(tzinfo=UTC)
            reason = match["reason"].removesuffix(_EMPTY)
            found.append(Backup(path, made_at, reason, reason == match["reason"]))
    return sorted(found, key=lambda backup: backup.made_at, reverse=True)


def is_due(*, has_chapters: bool) -> bool:
    """Return whether no backup was made in the last 24 hours.

    For a database with chapters, only backups with chapters are counted. A backup with a future
    time is not counted, because a wrong clock gave it that time.
    """
    now = datetime.now(UTC)
    return not any(
        timedelta(0) <= now - backup.made_at < ONE_DAY and (backup.has_chapters or not has_chapters)
        for backup in backups()
    )


def throw_away_old_ones() -> None:
    """Delete old backups. The backups of the last BACKUP_DAYS days are kept.

    Only days with a backup are counted, so a program that is not used loses no backup.
    """
    for has_chapters in (True, False):
        found = [backup for backup in backups() if backup.has_chapters is has_chapters]
        days = sorted({backup.day for backup in found}, reverse=True)[: settings.BACKUP_DAYS]
        for backup in found:
            if backup.day not in days:
                backup.path.unlink(missing_ok=True)


def is_as_named(path: Path) -> bool:
    """Return whether the hash in the file's name shows that the file is undamaged. A file that was
    renamed has no hash in its name, and is accepted."""
    match = _NAME.fullmatch(path.name)
    if not match:
        return True
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest().startswith(match["hash"])


def _made_folder() -> Path:
    folder: Path = settings.BACKUPS_FOLDER
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BackupError(_trouble(error)) from error
    return folder


def _write_folder(folder: Path) -> None:
    """Write the folder to the disk, so that a file's new name survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _trouble(error: OSError) -> str:
    return f"The folder {settings.BACKUPS_FOLDER} cannot be used: {error.strerror or error}."
