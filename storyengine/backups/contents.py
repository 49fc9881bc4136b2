"""The contents of a backup, and the check whether this program can restore it."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from django.apps import apps
from django.db.migrations.loader import MigrationLoader

from storyengine.stack.backup_errors import BackupError, FromBefore

# A migration: the label of its app, and its name.
Migration = tuple[str, str]

# A migration that every database has from the time before each app's migrations began anew, and
# that no newer database has.
_FROM_BEFORE: Migration = ("agents", "0002_llmartifact_turn_and_job")


@dataclass(frozen=True)
class Contents:
    """The contents of a backup that was read to its end."""

    # The file that the database is loaded from. It is the backup itself, or an SQL script that was
    # made from the backup.
    source: Path
    migrations: frozenset[Migration]


class Store(Protocol):
    """A database that can be copied into a file and restored from it. Its methods raise
    BackupError."""

    ending: str

    def dump(self, draft: Path) -> None:
        """Write the database into an empty file, as it is at one moment, and check the file."""

    def opened(self, backup: Path) -> AbstractContextManager[Contents]:
        """Read a backup to its end, so that damage is found before the database is changed."""

    def load(self, contents: Contents) -> None:
        """Replace everything in the database by the contents of a backup. If this fails, the
        database is unchanged."""


def refuse_what_is_not_ours(backup: Path, contents: Contents) -> None:
    if not any(
        app == apps.get_app_config("story_sessions").label for app, _ in contents.migrations
    ):
        raise BackupError(f"{backup} holds no chapters: it is no backup of Story Engine.")
    refuse_from_before(str(backup), contents.migrations)
    if unknown := unknown_migrations(contents.migrations):
        raise BackupError(
            f"{backup} was made by a newer Story Engine, with {', '.join(unknown)}. "
            "Install that version or a later one first."
        )


def refuse_from_before(subject: str, migrations: Iterable[Migration]) -> None:
    """Raise FromBefore if this program cannot bring the tables of a database with these migrations
    up to date."""
    if _FROM_BEFORE in migrations:
        raise FromBefore(
            f"{subject} is of an earlier Story Engine, whose tables this one cannot bring up to "
            "date. It was left as it is. To take its chapters along, start the program at commit "
            "8940d93c and export each story there. Then import the files into an empty database of "
            "this program. docs/deployment.md has the commands of an upgrade."
        )


def unknown_migrations(migrations: Iterable[Migration]) -> list[str]:
    """Return the given migrations that this program lacks, because a newer program has made
    them."""
    loader = MigrationLoader(None)
    return [
        f"{app}.{name}"
        for app, name in sorted(migrations)
        if app in loader.migrated_apps and (app, name) not in loader.disk_migrations
    ]


def missing_migrations(migrations: frozenset[Migration]) -> Iterator[str]:
    """Yield the migrations of this program that are not among the given migrations."""
    for app, name in sorted(MigrationLoader(None).disk_migrations):
        if (app, name) not in migrations:
            yield f"{app}.{name}"
