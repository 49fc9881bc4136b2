"""What a backup holds, and whether this program can take it."""

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
    """A backup that was read to its end."""

    # What the database is loaded from: the backup itself, or what was made of it.
    source: Path
    migrations: frozenset[Migration]


class Store(Protocol):
    """A database that can be copied into a file and back; every refusal is a BackupError."""

    ending: str

    def dump(self, draft: Path) -> None:
        """Write the database into an empty file, as it is at one moment, and check the file."""

    def opened(self, backup: Path) -> AbstractContextManager[Contents]:
        """Read a backup to its end, so that no damaged one comes near the database."""

    def load(self, contents: Contents) -> None:
        """Put it in the place of all that is in the database, or change nothing."""


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
    """What only a newer program can have done to a database with these."""
    loader = MigrationLoader(None)
    return [
        f"{app}.{name}"
        for app, name in sorted(migrations)
        if app in loader.migrated_apps and (app, name) not in loader.disk_migrations
    ]


def missing_migrations(migrations: frozenset[Migration]) -> Iterator[str]:
    """What this program would still do to a database with these."""
    for app, name in sorted(MigrationLoader(None).disk_migrations):
        if (app, name) not in migrations:
            yield f"{app}.{name}"
