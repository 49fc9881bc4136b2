"""Tests that a package with a licence that is not permissive is found."""

from pathlib import Path

import pytest

from storyengine.tests.licences import PERMISSIVE, is_permitted, main, problems


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which packages can be installed."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def install(site: Path, name: str, *headers: str) -> str:
    """Install a package that has nothing but metadata. Return its line of a lock file."""
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir()
    lines = ["Metadata-Version: 2.4", f"Name: {name}", "Version: 1.0", *headers]
    (folder / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"{name}==1.0 \\\n    --hash=sha256:00\n"


AGPL = "Classifier: License :: OSI Approved :: GNU Affero General Public License v3"
MPL = "Classifier: License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)"


def test_what_is_locked_has_licences_that_are_permitted() -> None:
    assert main() == 0


@pytest.mark.parametrize(
    "header", [AGPL, MPL, "License-Expression: AGPL-3.0-or-later", "License: GPL", "Summary: none"]
)
def test_another_licence_is_named(site: Path, header: str) -> None:
    lock = install(site, "planted", header) + install(site, "harmless", "License: MIT")
    (problem,) = problems(lock, PERMISSIVE)
    assert problem.startswith("planted has the licence ")


@pytest.mark.parametrize(
    ("expression", "permitted"),
    [
        ("MIT", True),
        ("MIT AND PSF-2.0", True),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only AND MIT", False),
        ("(GPL-3.0-only OR MIT) AND MIT", False),
        ("Apache-2.0 WITH Commons-Clause", False),
    ],
)
def test_an_expression(expression: str, permitted: bool) -> None:
    assert is_permitted(expression, ["GPL"], PERMISSIVE) is permitted
