"""Tests of making backups.

A backup is whole, and only its owner can read it. Only one process makes a backup at a time, and a
daily backup is made once a day.
"""

import errno
import os
import sqlite3
import stat
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.core.management.commands import migrate
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder
from pytest_django import Settings

from sessions.tests.racing import at_once
from storyengine.backups import postgresql, tasks
from storyengine.backups.folder import Backup, Reason, backups, is_due, throw_away_old_ones
from storyengine.backups.management.commands import backup as backup_command
from storyengine.backups.taking import (
    back_up,
    back_up_before_migrating,
    back_up_if_due,
    this_store,
)
from storyengine.stack.backup_errors import BackupError, ToolMissing


def lay(folder: Path, made_at: datetime, reason: str = "daily") -> Path:
    """Create an empty file whose name is the name of a backup that was made at this time."""
    folder.mkdir(exist_ok=True)
    path = folder / f"storyengine-{made_at:%Y%m%dT%H%M%S.%fZ}-{reason}-{'0' * 16}.sqlite3"
    path.touch()
    return path


@pytest.mark.django_db(transaction=True)
class TestBackUp:
    def test_only_its_owner_can_read_it(self, folder: Path) -> None:
        path = back_up(Reason.ASKED_FOR)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    def test_it_is_one_file(self, folder: Path) -> None:
        path = back_up(Reason.ASKED_FOR)
        assert {found.name for found in folder.iterdir()} == {".lock", path.name}
        if connection.vendor == "sqlite":
            # The copy is a single file. The database itself needs a log beside it, because it is in
            # WAL mode.
            with closing(sqlite3.connect(path)) as copy:
                assert copy.execute("PRAGMA journal_mode").fetchone() == ("delete",)

    def test_two_at_once_are_two_whole_ones(self) -> None:
        made = at_once(*[lambda: back_up(Reason.ASKED_FOR)] * 2)
        assert set(made) == {one.path for one in backups()}
        assert len(backups()) == 2

    def test_what_a_killed_one_left_is_cleared_away(self, folder: Path) -> None:
        folder.mkdir()
        (folder / ".unfinished-abc").write_text("half")
        (folder / "notes.txt").write_text("mine")
        path = back_up(Reason.ASKED_FOR)
        assert {found.name for found in folder.iterdir()} == {".lock", "notes.txt", path.name}

    def test_one_that_fails_leaves_nothing(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(handle: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("storyengine.backups.folder.os.fsync", full)
        with pytest.raises(BackupError, match="No space left on device"):
            back_up(Reason.ASKED_FOR)
        assert [found.name for found in folder.iterdir()] == [".lock"]


@pytest.mark.django_db(transaction=True)
class TestDaily:
    def test_the_day_has_one(self) -> None:
        assert back_up_if_due()
        assert back_up_if_due() is None

    def test_several_workers_make_one(self) -> None:
        made = at_once(back_up_if_due, back_up_if_due)
        assert made.count(None) == 1
        assert len(backups()) == 1

    def test_the_service_makes_them_and_lives_through_a_failure(
        self, settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found: list[int] = []

        def pause(seconds: float) -> None:
            found.append(len(list(folder.glob("storyengine-*"))))
            settings.BACKUPS_FOLDER = folder
            if len(found) == 3:
                raise KeyboardInterrupt

        (folder.parent / "file").touch()
        settings.BACKUPS_FOLDER = folder.parent / "file" / "backups"
        monkeypatch.setattr(f"{backup_command.__name__}.time.sleep", pause)
        with pytest.raises(KeyboardInterrupt):
            call_command("backup", "--daily")
        assert found == [0, 1, 1]

    def test_the_worker_makes_those_of_sqlite(self) -> None:
        tasks.back_up_daily()
        tasks.back_up_daily()
        assert len(backups()) == (connection.vendor == "sqlite")


class TestIsDue:
    @pytest.mark.parametrize(
        ("hours_ago", "due"), [((), True), ((23,), False), ((25,), True), ((-48, 25), True)]
    )
    def test_when_the_last_day_has_none(
        self, folder: Path, hours_ago: tuple[int, ...], due: bool
    ) -> None:
        for hours in hours_ago:
            lay(folder, datetime.now(UTC) - timedelta(hours=hours))
        assert is_due(has_chapters=True) is due

    def test_one_without_chapters_is_none_of_a_database_with_some(self, folder: Path) -> None:
        lay(folder, datetime.now(UTC), "daily-empty")
        assert is_due(has_chapters=True)
        assert not is_due(has_chapters=False)


class TestThrowAway:
    def test_the_last_days_that_have_any_are_kept(self, settings: Settings, folder: Path) -> None:
        settings.BACKUP_DAYS = 7
        noon = datetime(2026, 3, 20, 12, tzinfo=UTC)
        # The ages of backups in days. Some are weeks apart, and two of the days have two backups
        # each.
        days = [0, 0.1, 1, 2, 30, 31, 31.2, 60, 90, 91, 200]
        laid = [lay(folder, noon - timedelta(days=day)) for day in days]
        throw_away_old_ones()
        assert [one.path for one in backups()] == laid[:9]

    def test_the_newest_is_kept_however_old(self, folder: Path) -> None:
        path = lay(folder, datetime(2001, 1, 1, tzinfo=UTC))
        throw_away_old_ones()
        assert backups() == [Backup(path, datetime(2001, 1, 1, tzinfo=UTC))]

    def test_those_without_chapters_push_out_none_with_some(
        self, settings: Settings, folder: Path
    ) -> None:
        settings.BACKUP_DAYS = 7
        march = [datetime(2026, 3, day, tzinfo=UTC) for day in range(1, 21)]
        kept = [lay(folder, day) for day in march[:5]]
        kept += [lay(folder, day, f"{reason}-empty") for day in march[5:] for reason in Reason]
        throw_away_old_ones()
        left = {one.path for one in backups()}
        assert left == {*kept[:5], *kept[-7 * len(Reason) :]}

    def test_other_files_are_left_alone(self, settings: Settings, folder: Path) -> None:
        settings.BACKUP_DAYS = 7
        for day in range(1, 20):
            lay(folder, datetime(2026, 3, day, tzinfo=UTC))
        (folder / "storyengine-20200101.sqlite3").write_text("a copy of my own")
        throw_away_old_ones()
        assert len(backups()) == 7
        assert (folder / "storyengine-20200101.sqlite3").exists()


@pytest.mark.django_db
class TestBeforeMigrating:
    def test_what_is_to_be_changed_is_backed_up(self) -> None:
        recorder = MigrationRecorder(connection)
        recorder.record_unapplied("memory", max(n for a, n in applied() if a == "memory"))
        path = back_up_before_migrating()
        assert path
        assert "before-migration" in path.name

    @pytest.fixture
    def migrated(self, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
        """Replace the migration by a function that adds an entry to a list, and return the list.

        A real migration would end the test's transaction.
        """
        done: list[bool] = []
        monkeypatch.setattr(migrate.Command, "handle", lambda *_, **options: done.append(True))
        return done

    @pytest.fixture
    def due(self) -> None:
        recorder = MigrationRecorder(connection)
        recorder.record_unapplied("memory", max(n for a, n in applied() if a == "memory"))

    @pytest.mark.usefixtures("due")
    def test_the_command_does_so_whoever_calls_it(
        self, migrated: list[bool], capsys: pytest.CaptureFixture[str]
    ) -> None:
        call_command("migrate", verbosity=0)
        (backup,) = backups()
        assert "before-migration" in backup.path.name
        assert str(backup.path) in capsys.readouterr().err
        assert migrated == [True]

    def test_also_when_it_leads_back(self, migrated: list[bool]) -> None:
        call_command("migrate", "memory", "zero", verbosity=0)
        (backup,) = backups()
        assert "before-migration" in backup.path.name
        assert migrated == [True]

    def test_a_database_that_cannot_be_read_is_told_in_one_line(
        self, migrated: list[bool], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(_: MigrationRecorder) -> None:
            raise DatabaseError("file is not a database")

        monkeypatch.setattr(MigrationRecorder, "applied_migrations", fail)
        with pytest.raises(CommandError, match=r"left as it is: file is not a database\. If"):
            call_command("migrate", verbosity=0)
        assert migrated == []

    @pytest.mark.usefixtures("due")
    def test_without_one_nothing_is_changed(
        self, migrated: list[bool], settings: Settings, folder: Path
    ) -> None:
        folder.write_text("a file")
        settings.BACKUPS_FOLDER = folder / "backups"
        with pytest.raises(CommandError, match="Nothing was changed, because there is no backup"):
            call_command("migrate", verbosity=0)
        assert migrated == []

    @pytest.mark.usefixtures("due")
    def test_where_postgresql_s_programs_are_not_it_says_so(
        self,
        migrated: list[bool],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        def refuse(*_: object) -> None:
            raise ToolMissing("no pg_dump")

        monkeypatch.setattr(type(this_store()), "dump", refuse)
        call_command("migrate", verbosity=0)
        assert "without a backup: no pg_dump" in capsys.readouterr().err
        assert migrated == [True]


def applied() -> list[tuple[str, str]]:
    return list(MigrationRecorder(connection).applied_migrations())


class TestPostgresqlPrograms:
    """Tests with scripts in place of PostgreSQL's programs. The scripts record how they are
    called."""

    @pytest.fixture
    def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> postgresql.PostgresqlStore:
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        return postgresql.PostgresqlStore(
            {
                "NAME": "stories",
                "USER": "gm",
                "PASSWORD": "open-sesame",
                "HOST": "db",
                "PORT": 5433,
                "OPTIONS": {"sslmode": "require"},
            }
        )

    def install(self, folder: Path, script: str) -> None:
        for name in ("pg_dump", "pg_restore"):
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o700)

    def test_the_password_is_in_their_environment_only(
        self, store: postgresql.PostgresqlStore, tmp_path: Path
    ) -> None:
        self.install(tmp_path, f'echo "$0 $@" >> {tmp_path}/words; env >> {tmp_path}/environment')
        store.dump(tmp_path / "draft")
        words = (tmp_path / "words").read_text()
        assert "-U gm -h db -p 5433" in words
        assert "open-sesame" not in words
        environment = (tmp_path / "environment").read_text()
        assert "PGPASSWORD=open-sesame" in environment
        assert "PGSSLMODE=require" in environment

    def test_an_error_is_told_without_what_it_quotes(
        self, store: postgresql.PostgresqlStore, tmp_path: Path
    ) -> None:
        self.install(
            tmp_path,
            'echo "pg_dump: warning: old" >&2; echo "pg_dump: error: too old" >&2;'
            ' echo "DETAIL: Once upon a time" >&2; exit 1',
        )
        with pytest.raises(BackupError, match="too old") as caught:
            store.dump(tmp_path / "draft")
        assert "Once" not in str(caught.value)
        assert "open-sesame" not in str(caught.value)

    def test_they_are_looked_for_where_debian_keeps_them(
        self,
        store: postgresql.PostgresqlStore,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
        monkeypatch.setattr(postgresql, "_DEBIAN_FOLDERS", tmp_path / "versions")
        with pytest.raises(ToolMissing, match="postgresql-client"):
            store.dump(tmp_path / "draft")
        for version in ("9", "15", "common"):
            (tmp_path / "versions" / version / "bin").mkdir(parents=True)
            self.install(tmp_path / "versions" / version / "bin", f"echo {version} > {tmp_path}/v")
        store.dump(tmp_path / "draft")
        assert (tmp_path / "v").read_text() == "15\n"
