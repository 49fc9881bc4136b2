"""Tests that the lock files have the versions that the requirements name, with hashes."""

import re
from pathlib import Path

import pytest
from django.conf import settings

BASE = Path(settings.BASE_DIR)
FILES = [
    ("requirements.txt", "requirements.lock"),
    ("requirements-dev.txt", "requirements-dev.lock"),
]
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==([^\s;\\]+)", re.MULTILINE)


def read(name: str) -> str:
    return (BASE / name).read_text(encoding="utf-8")


def pins(name: str) -> dict[str, str]:
    """Return the version of each package, under its name in the form in which registries compare
    names."""
    text = read(name)
    found = {re.sub(r"[-_.]+", "-", one[1]).lower(): one[2] for one in _PINNED.finditer(text)}
    for other in re.findall(r"^-r (\S+)", text, re.MULTILINE):
        found |= pins(other)
    return found


@pytest.mark.parametrize(("wanted", "locked"), FILES)
def test_a_lock_has_the_versions_that_are_wanted(wanted: str, locked: str) -> None:
    assert pins(wanted).items() <= pins(locked).items(), f"{wanted} was changed: run make lock"


@pytest.mark.parametrize(("wanted", "locked"), FILES)
def test_each_package_of_a_lock_has_its_hashes(wanted: str, locked: str) -> None:
    entries = [one for one in re.split(r"\n(?=\S)", read(locked)) if not one.startswith("#")]
    assert len(entries) >= len(pins(wanted))
    for entry in entries:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry[:80]


@pytest.mark.parametrize("name", ["Makefile", "Dockerfile"])
def test_nothing_is_installed_without_them(name: str) -> None:
    installs = [line for line in read(name).splitlines() if "pip install" in line]
    assert installs
    for line in installs:
        assert "--require-hashes" in line
        assert "requirements.txt" not in line
