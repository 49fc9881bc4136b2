from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection
from pytest_django import Settings


@pytest.fixture(autouse=True)
def folder(settings: Settings, tmp_path: Path) -> Path:
    """Set a folder for the backups of this test.

    The folder does not exist yet, as in a new installation.
    """
    settings.BACKUPS_FOLDER = tmp_path / "backups"
    return tmp_path / "backups"


@pytest.fixture
def database_file() -> Iterator[Path]:
    """Yield the path of SQLite's file and restore its content after the test.

    The file holds all rows, because no connection is open and no log is beside it.
    """
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL has no file of ours")
    connection.close()
    path = Path(connection.settings_dict["NAME"])
    whole = path.read_bytes()
    yield path
    connection.close()
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    path.write_bytes(whole)
