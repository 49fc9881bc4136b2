"""Tests of the commands in the program's messages. The user can copy them wherever the program
runs."""

from pathlib import Path

import pytest
from pytest_django import Settings

from storyengine.settings.own_commands import own_command
from storyengine.tests.compose_file import SERVICES
from storyengine.tests.test_compose import DOCKERFILE


@pytest.fixture
def checkout(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pretend that `make run` has started the program in a clone of the repository, and return the
    clone's folder."""
    folder = tmp_path / "story engine"
    folder.mkdir()
    settings.BASE_DIR, settings.DATA_FOLDER = folder, folder / "var"
    monkeypatch.setattr("sys.executable", str(folder / ".venv/bin/python"))
    monkeypatch.chdir(folder)
    return folder


def test_in_a_checkout_it_is_its_own_python_by_its_short_name(checkout: Path) -> None:
    backup = checkout / "var" / "backups" / "a.sqlite3"
    expected = ".venv/bin/python manage.py restore var/backups/a.sqlite3"
    assert own_command("restore", backup) == expected


def test_in_a_container_it_is_what_its_host_types(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/venv/bin/python")
    settings.DATA_FOLDER = Path("/data")
    assert own_command("restore", Path("/backups/a.dump")) == (
        "docker compose run --rm prepare python manage.py restore /backups/a.dump"
    )
    assert "prepare" in SERVICES
    assert "ENV PATH=/venv/bin:" in DOCKERFILE
