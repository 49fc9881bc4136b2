"""Tests that the container runs the program just as `make run` does."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from storyengine.tests.copying import copy_program

BASE = Path(settings.BASE_DIR)
DOCKERFILE = (BASE / "Dockerfile").read_text(encoding="utf-8")


def read(name: str) -> str:
    return re.sub(r"\s+", " ", (BASE / name).read_text(encoding="utf-8"))


def procfile() -> dict[str, str]:
    lines = (BASE / "Procfile").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if not line.startswith("#"))


def test_compose_has_the_commands_of_the_procfile() -> None:
    compose = read("compose.yaml")
    for name in ("web", "worker"):
        setting, command = procfile()[name].removeprefix("exec env ").split(" ", 1)
        assert f"command: {command}" in compose.replace(">- ", "")
        assert setting in read("Dockerfile")
    (make,) = re.findall(r"@(arguments=.*? \$\$arguments)", read("Makefile"))
    assert f"command: sh -c '{make}'" in compose


def test_the_image_does_not_run_as_root() -> None:
    dockerfile = read("Dockerfile")
    assert dockerfile.index("USER storyengine") < dockerfile.index("CMD")


def test_the_image_holds_no_settings_chapters_or_tests() -> None:
    lines = (BASE / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    assert {"!.env", "!var", "!.git", "!."} & set(lines) == set()
    assert lines.index("**/tests") > max(n for n, line in enumerate(lines) if line[:1] == "!")


LOAD_ALL = """
import django, pkgutil, importlib
django.setup()
from django.conf import settings
for package in ("agents", *settings.MODES, "memory", "sessions", "storyengine"):
    path = importlib.import_module(package).__path__
    for found in pkgutil.walk_packages(path, f"{package}."):
        importlib.import_module(found.name)
from django.template.loader import get_template
get_template("login.html")
"""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    copy_program(tmp_path / "app")
    return tmp_path / "app"


def test_what_is_copied_into_the_image_is_all_that_the_program_needs(image: Path) -> None:
    (collect,) = re.findall(r"^RUN \S+ \S+ (python .*collectstatic.*)$", DOCKERFILE, re.MULTILINE)
    environment = {name: one for name, one in os.environ.items() if "PYTEST" not in name} | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "DJANGO_SETTINGS_MODULE": "storyengine.settings",
        "STORYENGINE_DATA": str(image.parent / "data"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for command in (collect.split(), ["python", "-c", LOAD_ALL]):
        subprocess.run(  # noqa: S603
            command, cwd=image, env=environment, check=True, capture_output=True
        )
    assert (image / "staticfiles" / "staticfiles.json").is_file()
    # Root collects the files while the image is built, but another user must be able to read them.
    for path in (image / "staticfiles", *(image / "staticfiles").rglob("*")):
        assert path.stat().st_mode & 0o055 == (0o055 if path.is_dir() else 0o044), path
    assert (image / "Procfile").is_file()
