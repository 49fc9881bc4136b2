"""Tests that the program refuses to start on a damaged or lost database, and changes nothing in it.

The message says what is wrong and what to do.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from pytest_django import Settings

from agents.llm.providers.scripted import ScriptedProvider
from sessions import storage
from sessions.models import Session
from sessions.tests.factories import make_chapter
from storyengine.backups.folder import Reason
from storyengine.backups.taking import back_up
from storyengine.backups.tests.rows import all_rows
from storyengine.tests.url_map import text_of
from storyengine.tests.whole_chapter import make_whole_chapter
from testing.program import free_port

pytestmark = pytest.mark.django_db(transaction=True)

UNREADABLE = "The database cannot be read, and was left as it is: "
# The beginning and the end of the message. Between them the message has an apostrophe, which pages
# escape.
SENTENCE = (UNREADABLE, "docs/deployment.md says how to restore a backup all the same.")
# The tests damage one page of the database's file in STRIDE pages, each by itself. If STRIDE is 1,
# the tests take some minutes.
STRIDE = 23


@pytest.fixture(autouse=True)
def _no_migration(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `prepare` run a function that does nothing in place of the migration."""
    settings.LLM, settings.PASSWORD, settings.PORT = "scripted", "", free_port()
    command = "storyengine.operations.management.commands.prepare.call_command"
    monkeypatch.setattr(command, lambda *_, **__: None)


@pytest.fixture
def unused() -> Iterator[None]:
    """Empty Django's list of applied migrations for one test. To Django, the database then has no
    tables."""
    recorder = MigrationRecorder(connection)
    applied = list(recorder.applied_migrations())
    recorder.flush()
    yield
    for app, name in applied:
        recorder.record_applied(app, name)


def files_beside(database: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in database.parent.glob(f"{database.name}*")}


def test_a_sound_database_starts() -> None:
    make_chapter()
    back_up(Reason.DAILY)
    assert "web worker" in call_command("prepare")


class TestEmpty:
    @pytest.mark.parametrize("is_there", [True, False])
    def test_a_file_of_no_bytes_beside_backups(self, database_file: Path, is_there: bool) -> None:
        make_chapter(title="Before")
        kept = back_up(Reason.DAILY)
        connection.close()
        for file in database_file.parent.glob(f"{database_file.name}*"):
            file.unlink()
        if is_there:
            database_file.touch()
        # SQLite would delete this log. It must stay, because it may have the latest rows.
        database_file.with_name(f"{database_file.name}-wal").write_bytes(b"a log")
        before = files_beside(database_file)
        with pytest.raises(CommandError, match=f"is empty, though .*restore {kept}`"):
            call_command("prepare")
        assert files_beside(database_file) == before
        call_command("restore", str(kept))
        call_command("prepare")
        assert Session.objects.get().title == "Before"

    def test_a_database_without_tables_beside_backups(self, unused: None) -> None:
        make_chapter()
        back_up(Reason.DAILY)
        with pytest.raises(CommandError, match=r"To begin with an empty library, run .*migrate"):
            call_command("prepare")


class TestNewer:
    @pytest.fixture(autouse=True)
    def _newer(self) -> Iterator[None]:
        back_up(Reason.BEFORE_MIGRATION)
        recorder = MigrationRecorder(connection)
        recorder.record_applied("memory", "9999_from_the_future")
        back_up(Reason.BEFORE_MIGRATION)
        yield
        recorder.record_unapplied("memory", "9999_from_the_future")

    def test_it_names_the_backup_that_this_program_can_take(self, folder: Path) -> None:
        earlier = min(folder.glob("*before-migration*"))
        said = rf"newer Story Engine, with memory\.9999_from_the_future.*restore {earlier}`"
        with pytest.raises(CommandError, match=said):
            call_command("prepare")
        call_command("restore", str(earlier))
        call_command("prepare")


def test_a_database_from_before_the_migrations_began_anew_is_refused(folder: Path) -> None:
    """Its migration `0001_initial` has the name of the present one, so that Django would take the
    tables for those of this program."""
    make_chapter()
    recorder = MigrationRecorder(connection)
    recorder.record_applied("agents", "0002_llmartifact_turn_and_job")
    try:
        kept, rows = back_up(Reason.ASKED_FOR), all_rows()
        for command in (["prepare"], ["migrate"], ["restore", str(kept)]):
            with pytest.raises(CommandError, match=r"left as it is.*commit 8940d93c and export"):
                call_command(*command)
        assert all_rows() == rows
        assert list(folder.glob("storyengine-*")) == [kept]
    finally:
        recorder.record_unapplied("agents", "0002_llmartifact_turn_and_job")


class TestDamaged:
    @pytest.mark.parametrize("place", ["header", "middle"])
    def test_it_gets_the_same_sentence_wherever_it_is(
        self, database_file: Path, place: str
    ) -> None:
        page, size = find_table(database_file, "story_sessions_session")
        at = 0 if place == "header" else (page - 1) * size
        damage(database_file, at, size)
        damaged = database_file.read_bytes()
        with pytest.raises(CommandError) as said:
            call_command("prepare")
        assert all(part in str(said.value) for part in SENTENCE)
        assert database_file.read_bytes() == damaged

    def test_at_any_place_it_is_said_at_the_start_or_harms_nothing(
        self, provider: ScriptedProvider, settings: Settings, request: pytest.FixtureRequest
    ) -> None:
        """For each damage, either the start is refused or every page works."""
        whole = make_whole_chapter("the heron counts backwards")
        database_file: Path = request.getfixturevalue("database_file")
        client = Client(raise_request_exception=False)
        paths = [one for one in whole.addresses if client.get(one).status_code == 200]
        assert len(paths) > 20
        connection.close()
        sound = database_file.read_bytes()
        _, size = find_table(database_file, "story_sessions_session")
        said_so = 0
        for at in range(0, len(sound), size * STRIDE):
            for file in database_file.parent.glob(f"{database_file.name}-*"):
                file.unlink()
            database_file.write_bytes(sound)
            damage(database_file, at, size)
            is_said = not starts()
            for answer in map(client.get, paths):
                text = text_of(answer)
                told = answer.status_code == 503 and all(part in text for part in SENTENCE)
                # SQLite cannot notice that a text was lost. The page that should show the text
                # fails, but not with the message about a damaged database. The check at the start
                # finds the loss.
                assert told or answer.status_code < 500 or is_said, (at, answer)
                assert not told or is_said
                said_so += told
            connection.close()
        assert said_so


def starts() -> bool:
    try:
        call_command("prepare")
    except CommandError as error:
        if all(part in str(error) for part in SENTENCE):
            return False
        raise
    finally:
        connection.close()
    return True


def find_table(database: Path, name: str) -> tuple[int, int]:
    """Return the number of the table's first page, and the size of a page in bytes."""
    with closing(sqlite3.connect(database)) as opened:
        (size,) = opened.execute("PRAGMA page_size").fetchone()
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (page,) = opened.execute(query, [name]).fetchone()
    return page, size


def damage(file: Path, at: int, size: int) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:at] + bytes(size) + data[at + size :])


class TestFullDisk:
    def test_it_is_named(self, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
        monkeypatch.setattr(storage, "LEAST_FREE_BYTES", 1 << 60)
        with pytest.raises(CommandError, match=f"disk of {settings.DATA_FOLDER} is full"):
            call_command("prepare")
