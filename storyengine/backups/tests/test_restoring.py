"""Tests of restoring a backup. If the file is no good backup, it is refused and nothing is
changed."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder

from agents.running.heartbeats import store_heartbeat
from sessions.models import Session
from sessions.tests.factories import make_chapter
from storyengine.backups import postgresql, restoring, sqlite
from storyengine.backups.folder import Reason, backups
from storyengine.backups.restoring import restore
from storyengine.backups.taking import back_up, this_store
from storyengine.backups.tests.rows import all_rows, fill_every_table
from storyengine.stack.backup_errors import BackupError

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def nothing_changes() -> Iterator[None]:
    rows, files = all_rows(), backups()
    yield
    connection.close()
    assert all_rows() == rows
    assert backups() == files


@pytest.fixture
def backup() -> Path:
    fill_every_table()
    path = back_up(Reason.ASKED_FOR)
    make_chapter(title="Later")
    return path


def cut_off(data: bytes) -> bytes:
    return data[: len(data) // 2]


def one_bit_flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def nothing(data: bytes) -> bytes:
    return b""


def nothing_but_zeros(data: bytes) -> bytes:
    return bytes(len(data))


def something_else(data: bytes) -> bytes:
    return b"Once upon a time. " * 1_000


def only_its_start(data: bytes) -> bytes:
    return data[:16] + b"\0" * len(data)


def test_a_worker_that_runs_would_go_on_with_what_is_replaced(backup: Path) -> None:
    store_heartbeat("worker", {})
    with nothing_changes(), pytest.raises(CommandError, match="A worker of the program is running"):
        call_command("restore", str(backup))
    store_heartbeat("worker", {}, is_last=True)
    call_command("restore", str(backup))
    assert not Session.objects.filter(title="Later").exists()


def test_a_worker_that_starts_while_the_backup_is_looked_at(
    backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = restoring._keep_what_is_there

    def keep_while_one_starts() -> Path | None:
        store_heartbeat("worker", {})
        return keep()

    monkeypatch.setattr(restoring, "_keep_what_is_there", keep_while_one_starts)
    with pytest.raises(CommandError, match="A worker of the program is running"):
        call_command("restore", str(backup))
    assert Session.objects.filter(title="Later").exists()


def test_a_database_that_does_not_say_whether_a_worker_runs(
    backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OperationalError("too many clients already")

    monkeypatch.setattr(restoring, "since_last_heartbeat", fail)
    with nothing_changes(), pytest.raises(CommandError, match="too many clients"):
        call_command("restore", str(backup), "--without-backup")


def test_a_worker_of_when_the_backup_was_made_is_none_that_runs() -> None:
    chapter = make_chapter(title="Then")
    store_heartbeat("worker", {})
    backup = back_up(Reason.DAILY)
    store_heartbeat("worker", {}, is_last=True)
    for _ in range(2):
        Session.objects.filter(pk=chapter.pk).update(title="Later")
        call_command("restore", str(backup))
        assert Session.objects.get().title == "Then"


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (cut_off, "is damaged"),
        (one_bit_flipped, "is damaged"),
        (nothing, "is empty"),
        (something_else, "is damaged"),
    ],
)
def test_a_file_that_is_not_what_its_name_says(
    backup: Path, spoil: Callable[[bytes], bytes], reason: str
) -> None:
    backup.write_bytes(spoil(backup.read_bytes()))
    with nothing_changes(), pytest.raises(CommandError, match=reason):
        call_command("restore", str(backup))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (cut_off, "is damaged"),
        (only_its_start, "is damaged|holds no chapters"),
        (nothing, "is empty"),
        (something_else, "is no backup of Story Engine"),
    ],
)
def test_a_file_that_was_renamed(
    backup: Path, tmp_path: Path, spoil: Callable[[bytes], bytes], reason: str
) -> None:
    renamed = tmp_path / "my copy.bak"
    renamed.write_bytes(spoil(backup.read_bytes()))
    with nothing_changes(), pytest.raises(CommandError, match=reason):
        call_command("restore", str(renamed))


def test_a_good_file_may_have_any_name(backup: Path, tmp_path: Path) -> None:
    backup.rename(tmp_path / "my copy.bak")
    call_command("restore", str(tmp_path / "my copy.bak"))
    assert not Session.objects.filter(title="Later").exists()


def test_the_backup_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "other"
    if connection.vendor == "sqlite":
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE recipes (name)")
    else:
        store = postgresql.PostgresqlStore(connection.settings_dict)
        store._run("pg_dump", ["--format=custom", "--table=auth_user", f"--file={path}"], "")
    with nothing_changes(), pytest.raises(CommandError, match="holds no chapters"):
        call_command("restore", str(path))


def test_the_backup_of_another_kind_of_database(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(b"PGDMP" if connection.vendor == "sqlite" else b"SQLite format 3\0")
    with nothing_changes(), pytest.raises(CommandError, match="is no backup of Story Engine's"):
        call_command("restore", str(path))


def test_a_file_with_a_trigger_in_it(backup: Path, tmp_path: Path) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("a dump of PostgreSQL is a program as it is")
    path = tmp_path / "hostile.sqlite3"
    path.write_bytes(backup.read_bytes())
    with closing(sqlite3.connect(path)) as hostile:
        hostile.execute(
            "CREATE TRIGGER t AFTER INSERT ON story_sessions_session BEGIN"
            " DELETE FROM story_sessions_event; END"
        )
    with nothing_changes(), pytest.raises(CommandError, match="has triggers"):
        call_command("restore", str(path))


def test_a_backup_of_a_newer_program() -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_applied("agents", "9999_from_the_future")
    path = back_up(Reason.ASKED_FOR)
    recorder.record_unapplied("agents", "9999_from_the_future")
    with nothing_changes(), pytest.raises(CommandError, match=r"newer.*agents\.9999_from_the_fut"):
        call_command("restore", str(path))


def test_a_backup_of_an_older_program() -> None:
    """The restore drops tables that a newer program has made. They would otherwise make later
    migrations fail."""
    chapter = make_chapter()
    recorder = MigrationRecorder(connection)
    latest = max(name for app, name in recorder.applied_migrations() if app == "agents")
    recorder.record_unapplied("agents", latest)
    path = back_up(Reason.ASKED_FOR)
    recorder.record_applied("agents", latest)
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE came_later (session_id {} REFERENCES story_sessions_session)".format(
                "char(32)" if connection.vendor == "sqlite" else "uuid"
            )
        )
        cursor.execute("INSERT INTO came_later SELECT session_id FROM story_sessions_session")

    out = StringIO()
    call_command("restore", str(path), stdout=out)
    assert "came_later" not in connection.introspection.table_names()
    assert Session.objects.get() == chapter
    assert "older than this program by 1 changes" in out.getvalue()
    assert "manage.py migrate" in out.getvalue()
    recorder.record_applied("agents", latest)


def test_a_database_in_use_is_left_as_it_is(backup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sqlite, postgresql):
        monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.1)
    rows = all_rows()
    other = connection.copy()
    with closing(other), other.cursor() as cursor:
        cursor.execute("BEGIN IMMEDIATE" if connection.vendor == "sqlite" else "BEGIN")
        cursor.execute("UPDATE story_sessions_session SET title = 'Being written'")
        with pytest.raises(BackupError, match=r"in use|lock timeout"):
            restore(backup)
        cursor.execute("ROLLBACK")
    assert all_rows() == rows


def test_what_cannot_be_backed_up_is_not_thrown_away(
    backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BackupError("the disk is full")

    monkeypatch.setattr(type(this_store()), "dump", refuse)
    with nothing_changes(), pytest.raises(CommandError, match=r"disk is full.*--without-backup"):
        call_command("restore", str(backup))
    call_command("restore", str(backup), "--without-backup")
    assert not Session.objects.filter(title="Later").exists()


@pytest.mark.parametrize("spoil", [cut_off, nothing_but_zeros, something_else, only_its_start])
def test_a_database_that_is_damaged(
    backup: Path, database_file: Path, spoil: Callable[[bytes], bytes]
) -> None:
    """The restore does not overwrite the damaged file. The restore works after the user has moved
    the file away, as the documentation says."""
    database_file.write_bytes(damaged := spoil(database_file.read_bytes()))
    with pytest.raises(CommandError, match=r"could not be backed up.*\. To give it up, add"):
        call_command("restore", str(backup))
    assert database_file.read_bytes() == damaged
    for file in database_file.parent.glob(f"{database_file.name}*"):
        file.unlink()
    call_command("restore", str(backup))
    assert Session.objects.exists()
    assert not Session.objects.filter(title="Later").exists()


def test_a_database_that_cannot_even_be_written_over(backup: Path, database_file: Path) -> None:
    database_file.write_bytes(damaged := something_else(b""))
    with pytest.raises(CommandError, match=r"not a database.*damaged, docs/deployment\.md"):
        call_command("restore", str(backup), "--without-backup")
    assert database_file.read_bytes() == damaged


def test_a_renamed_file_with_one_bad_page(backup: Path, tmp_path: Path) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("a dump of PostgreSQL has no pages")
    with closing(sqlite3.connect(backup)) as copy:
        (size,) = copy.execute("PRAGMA page_size").fetchone()
        (page,) = copy.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'story_sessions_event'"
        ).fetchone()
    data = bytearray(backup.read_bytes())
    data[(page - 1) * size : page * size] = bytes(size)
    (tmp_path / "copy").write_bytes(data)
    with nothing_changes(), pytest.raises(CommandError, match=r"is damaged: integrity_check says"):
        call_command("restore", str(tmp_path / "copy"))
