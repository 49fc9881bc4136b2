"""Tests that the program's database, logs and queue can be read only by the user who runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from pytest_django import Settings

from storyengine.operations.checks import configuration
from storyengine.settings.private_files import files_for_others

DATABASE = "storyengine.sqlite3"
# The code of a process that writes to the database and the log, and then waits until its input
# ends.
PROGRAM = """
import logging, sys
sys.argv = ["manage.py", "serve"]
import django
django.setup()
from django.db import connection
connection.cursor().execute("CREATE TABLE IF NOT EXISTS kept (id)")
connection.cursor().execute("INSERT INTO kept VALUES (1)")
logging.getLogger("storyengine").warning("a line")
print("done", flush=True)
sys.stdin.read()
"""


def run_in(folder: Path) -> dict[str, str]:
    """Run PROGRAM with a umask that lets other users of the system read new files. Return the
    permissions of all files in the folder."""
    unset = ("PYTEST_VERSION", "DATABASE_URL", "CELERY_BROKER_URL", "SECRET_KEY")
    environment = {name: one for name, one in os.environ.items() if name not in unset}
    environment |= {
        "DJANGO_SETTINGS_MODULE": "storyengine.settings",
        "STORYENGINE_DATA": str(folder),
    }
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", PROGRAM],
        cwd=django_settings.BASE_DIR,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        umask=0o022,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        paths = [folder, *folder.rglob("*")]
        modes = {str(path.relative_to(folder)): oct(path.stat().st_mode)[-3:] for path in paths}
        process.communicate(timeout=30)
    return modes


def assert_is_private(modes: dict[str, str]) -> None:
    for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", "logs/web.log", "secret-key"):
        assert modes[name] == "600", name
    for name in ("logs", "queue"):
        assert modes[name] == "700", name


def test_in_a_new_folder(tmp_path: Path) -> None:
    modes = run_in(tmp_path / "data")
    assert modes["."] == "700"
    assert_is_private(modes)


def test_in_a_folder_that_was_there_before(tmp_path: Path) -> None:
    """The program also makes files of an earlier version private. It does not change files that are
    not its own."""
    tmp_path.chmod(0o755)
    run_in(tmp_path)
    other = tmp_path / "letters"
    other.mkdir()
    (tmp_path / "logs" / "web.log.1").touch()
    for path in tmp_path.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    modes = run_in(tmp_path)
    assert_is_private(modes)
    assert modes["logs/web.log.1"] == "600"
    assert (modes["."], modes["letters"]) == ("755", "755")


def test_what_cannot_be_made_private_is_named(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DATA_FOLDER = tmp_path
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / DATABASE)}
    monkeypatch.setitem(settings.DATABASES, "default", database)
    assert configuration.check_private_files() == []
    (tmp_path / DATABASE).touch(mode=0o600)
    (tmp_path / "logs").mkdir(mode=0o700)
    assert configuration.check_private_files() == []
    (tmp_path / DATABASE).chmod(0o640)
    (message,) = configuration.check_private_files()
    assert (message.id, str(tmp_path / DATABASE) in message.msg) == ("storyengine.W018", True)
    assert message.hint


def test_a_database_on_a_server_has_no_file(tmp_path: Path) -> None:
    (tmp_path / "story").touch()
    (tmp_path / "story").chmod(0o644)
    database = {"ENGINE": "storyengine.stack.postgresql", "NAME": str(tmp_path / "story")}
    assert files_for_others(tmp_path, database) == []
