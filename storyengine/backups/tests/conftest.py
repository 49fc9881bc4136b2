from pathlib import Path

import pytest
from pytest_django import Settings


@pytest.fixture(autouse=True)
def folder(settings: Settings, tmp_path: Path) -> Path:
    """Where this test's backups are; like a new installation's, it is not there yet."""
    settings.BACKUPS_FOLDER = tmp_path / "backups"
    return tmp_path / "backups"
