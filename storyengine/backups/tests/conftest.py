from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection
from pytest_django import Settings


@pytest.fixture(autouse=True)
def folder(settings: Settings, tmp_path: Path) -> Path:
    """Where this test's backups are; like a new installation's, it is not there yet."""
    settings.BACKUPS_FOLDER = tmp_path / "backups"
    return tmp_path / "backups"


@pytest.fixture
def database_file() -> Iterator[Path]:
    """Of SQLite, with all in it: nobody has it open, and it has no log. Whole again afterwards."""
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
