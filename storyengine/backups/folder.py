"""The folder of backups, to which one process at a time adds complete files.

The name of a file has the time and the reason of the backup. It also has the start of the file's
SHA-256, which shows whether a copy was damaged:

storyengine-20261122T031500.123456Z-daily-0f3a5c7e9b1d2f40.sqlite3

The reason also says if the database had no chapters (`daily-empty`). Such backups are counted
separately, so that they never displace a backup with chapters.
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

from storyengine.backups.exceptions import BackupError

ONE_DAY = timedelta(days=1)
# The beginning of a draft's name. It identifies the drafts that a killed process has left.
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
    # The reason for the backup, which is a value of Reason.
    reason: str = Reason.DAILY
    has_chapters: bool = True

    @property
    def day(self) -> date:
        return self.made_at.date()

    @property
    def when(self) -> str:
        """The time of the backup in words, such as "22 November 2026 at 03:15 UTC, 2 days ago"."""
        ago = timesince(self.made_at, depth=1).replace("\N{NO-BREAK SPACE}", " ")
        return f"{self.made_at:%-d %B %Y at %H:%M} UTC, {ago} ago"


@contextmanager
def only_one_at_a_time(*, wait: bool = True) -> Iterator[bool]:
    """Lock the folder against other processes.

    If another process has locked it, wait, or yield False if `wait` is off. The system releases the
    lock when the process that has it ends in any way.
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
    """Create an empty private file in the folder. After the block, delete it unless it was kept."""
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
    """Write a complete and checked draft to the disk, and then give it its name."""
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
    """Return whether a backup is due, because there is none of the last 24 hours.

    For a database with chapters, only backups with chapters count. A backup with a future time does
    not count, because a wrong clock gave it that time.
    """
    now = datetime.now(UTC)
    return not any(
        timedelta(0) <= now - backup.made_at < ONE_DAY and (backup.has_chapters or not has_chapters)
        for backup in backups()
    )


def throw_away_old_ones() -> None:
    """Delete old backups. Backups of the last BACKUP_DAYS days on which one was made stay.

    Days without a backup do not count, so a program that is not used loses no backup.
    """
    for has_chapters in (True, False):
        found = [backup for backup in backups() if backup.has_chapters is has_chapters]
        days = sorted({backup.day for backup in found}, reverse=True)[: settings.BACKUP_DAYS]
        for backup in found:
            if backup.day not in days:
                backup.path.unlink(missing_ok=True)


def is_as_named(path: Path) -> bool:
    """Return whether the file has the hash that its name says. A renamed file is accepted
    unchecked."""
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
    """Write the folder to the disk, so that a new name in it survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _trouble(error: OSError) -> str:
    return f"The folder {settings.BACKUPS_FOLDER} cannot be used: {error.strerror or error}."
