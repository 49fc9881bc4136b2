"""The contents of a backup, and the check whether this program can restore it."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from django.apps import apps
from django.db.migrations.loader import MigrationLoader

from storyengine.backups.exceptions import BackupError

# An app's label and the name of one of its migrations.
Migration = tuple[str, str]


@dataclass(frozen=True)
class Contents:
    """The contents of a backup that was read to its end."""

    # The file that the database is loaded from: the backup itself or a script made from it.
    source: Path
    migrations: frozenset[Migration]


class Store(Protocol):
    """A database that can be copied to a file and back; its methods raise BackupError."""

    ending: str

    def dump(self, draft: Path) -> None:
        """Write the database's state at one moment into an empty file, and check the file."""

    def opened(self, backup: Path) -> AbstractContextManager[Contents]:
        """Read a backup to its end, so that a damaged one is found before the database changes."""

    def load(self, contents: Contents) -> None:
        """Replace everything in the database by the contents, or change nothing."""


def refuse_what_is_not_ours(backup: Path, contents: Contents) -> None:
    if not any(
        app == apps.get_app_config("story_sessions").label for app, _ in contents.migrations
    ):
        raise BackupError(f"{backup} holds no chapters: it is no backup of Story Engine.")
    if unknown := unknown_migrations(contents.migrations):
        raise BackupError(
            f"{backup} was made by a newer Story Engine, with {', '.join(unknown)}. "
            "Install that version or a later one first."
        )


def unknown_migrations(migrations: Iterable[Migration]) -> list[str]:
    """Return those of the migrations that only a newer program knows."""
    loader = MigrationLoader(None)
    return [
        f"{app}.{name}"
        for app, name in sorted(migrations)
        if app in loader.migrated_apps and (app, name) not in loader.disk_migrations
    ]


def missing_migrations(migrations: frozenset[Migration]) -> Iterator[str]:
    """Yield the migrations that this program would still apply to a database with these."""
    for app, name in sorted(MigrationLoader(None).disk_migrations):
        if (app, name) not in migrations:
            yield f"{app}.{name}"
