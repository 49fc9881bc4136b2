"""Tests that the command which a refused start recommends can be typed into a shell and works."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings

from testing.program import free_port

pytestmark = pytest.mark.processes

MAKE_A_CHAPTER = "from sessions.chapter.chapters import create_chapter; create_chapter('Before')"
COUNT = "from sessions.models import Session; print(Session.objects.count())"


class Installation:
    """An installed program. The environment in which the program starts names its data folder. The
    user's shell does not name this folder."""

    def __init__(self, data: Path) -> None:
        self.database = data / "storyengine.sqlite3"
        named = ("DATABASE_URL", "CELERY_BROKER_URL", "STORYENGINE_BACKUPS", "STORYENGINE_DATA")
        self._shell = {name: value for name, value in os.environ.items() if name not in named}
        self._shell["PORT"] = str(free_port())
        self._start = self._shell | {"STORYENGINE_DATA": str(data)}

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return _run([sys.executable, "manage.py", *arguments], self._start)

    def type_into_shell(self, line: str) -> subprocess.CompletedProcess[str]:
        return _run(["sh", "-c", line], self._shell)


def _run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  (its words are this test's own)
        command,
        cwd=settings.BASE_DIR,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def lose_all(database: Path) -> None:
    database.write_bytes(b"")


def lose_a_part(database: Path) -> None:
    data = database.read_bytes()
    database.write_bytes(data[:4096] + bytes(len(data) - 4096))


@pytest.mark.parametrize("harm", [lose_all, lose_a_part])
def test_the_chapters_come_back(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    installation = Installation(tmp_path / "my stories")
    assert installation.manage("migrate", "--verbosity=0").returncode == 0
    assert installation.manage("shell", "-c", MAKE_A_CHAPTER).returncode == 0
    assert installation.manage("backup").returncode == 0
    harm(installation.database)
    harmed = installation.database.read_bytes()

    refused = installation.manage("prepare")
    assert refused.returncode
    assert re.search(r"on \d+ \w+ \d{4} at \d\d:\d\d UTC, \d+ minutes? ago", refused.stderr)
    restore, *_ = re.findall(r"`([^`]*)`", refused.stderr)
    done = installation.type_into_shell(restore)
    assert done.returncode == 0, done.stderr
    assert installation.manage("prepare").returncode == 0
    assert installation.manage("shell", "-c", COUNT).stdout.strip().endswith("1")
    # The restore keeps the damaged file, because some of its rows may still be readable.
    kept = [file.read_bytes() for file in tmp_path.glob("my stories/damaged-1/*.sqlite3")]
    assert kept == ([harmed] if harmed else [])
