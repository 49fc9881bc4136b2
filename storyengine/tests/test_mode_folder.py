"""Tests that a mode needs only its folder, one line in the settings, and its name in the import
contract."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from storyengine.tests.copying import copy_program

BASE = Path(settings.BASE_DIR)
FOLDER = Path(__file__).resolve().parent / "harbour"
PACKAGES = ("storyengine", *settings.MODES, "world", "agents", "memory", "sessions")

PROBE = """
import django
django.setup()
from django.contrib import admin
from django.core.management import call_command
from django.test import Client
call_command("check")
call_command("makemigrations", check=True, dry_run=True)
call_command("migrate", verbosity=0)
from django.conf import settings
from agents.modes.registry import all_modes, find_agent
from agents.prompting.prompt_files import render_prompt
from harbour.models import Berth
from storyengine.api.app import api
client = Client(SERVER_NAME="localhost")
assert [mode.name for mode in all_modes()] == settings.MODES
assert "harbour" in settings.MODES
assert find_agent("harbour.pilot") is not None
page = client.get("/modes/harbour/quay")
assert page.status_code == 200, page
assert "/static/harbour/quay." in page.content.decode(), page.content
assert client.get("/api/modes/harbour/tide").json() == 3
assert "/api/modes/harbour/tide" in api.get_openapi_schema()["paths"]
assert admin.site.is_registered(Berth)
assert Berth.objects.count() == 0
assert render_prompt("harbour.pilot") == "You pilot ships into the harbour."
made = client.post("/api/session", {"mode": "harbour"}, content_type="application/json")
assert (made.status_code, made.json()["state"]) == (201, "ACTIVE"), made.content
from agents.modes.registry import modules_of_modes
scenarios = {name: one.SCENARIO for name, one in modules_of_modes("chaos").items()}
assert scenarios["harbour"] == {"prompts": [{"agent_slot": None}]}
assert "You bring ships in." in client.get("/chapters/modes").content.decode()
"""


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, (path, before)
    path.write_text(text.replace(before, after), encoding="utf-8")


def add_mode(folder: Path, name: str = "harbour") -> None:
    shutil.copytree(FOLDER, folder / name, ignore=shutil.ignore_patterns("__pycache__"))


def run(folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: one for name, one in os.environ.items() if "PYTEST" not in name} | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "DJANGO_SETTINGS_MODULE": "storyengine.settings",
        "DATABASE_URL": "",
        "CELERY_BROKER_URL": "",
        "STORYENGINE_DATA": str(folder.parent / "data"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(  # noqa: S603
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_a_mode_is_picked_up_from_its_folder_and_one_line(tmp_path: Path) -> None:
    program = tmp_path / "program"
    copy_program(program)
    add_mode(program)
    one_line = program / "storyengine" / "settings" / "__init__.py"
    edit(one_line, "\nMODES = [", '\nMODES = ["harbour", ')
    collected = run(program, "python", "manage.py", "collectstatic", "--noinput")
    assert collected.returncode == 0, collected.stderr
    assert list((program / "staticfiles" / "harbour").glob("quay.*.css"))
    probed = run(program, "python", "-c", PROBE)
    assert probed.returncode == 0, probed.stderr


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    """Return a copy of the program with two more modes, which are both named in the import
    contract."""
    folder = tmp_path / "program"
    folder.mkdir()
    for name in (*PACKAGES, "testing", "chaos", "bench"):
        (folder / name).symlink_to(BASE / name)
    shutil.copy(BASE / "pyproject.toml", folder)
    for name in ("harbour", "ferry"):
        add_mode(folder, name)
    edit(
        folder / "pyproject.toml",
        'root_packages = ["storyengine",',
        'root_packages = ["storyengine", "harbour", "ferry",',
    )
    return folder


def lint(folder: Path) -> "subprocess.CompletedProcess[str]":
    return run(folder, "lint-imports", "--no-cache")


def test_the_import_contract_holds_with_more_modes(contract: Path) -> None:
    found = lint(contract)
    assert found.returncode == 0, found.stdout
    assert "0 broken" in found.stdout


@pytest.mark.parametrize(
    "imports",
    ["import ferry.models", "import gamemaster.characters", "import storyengine.tabs"],
)
def test_a_mode_that_imports_another_or_a_page_is_refused(contract: Path, imports: str) -> None:
    module = contract / "harbour" / "mode.py"
    module.write_text(f"{imports}\n{module.read_text(encoding='utf-8')}", encoding="utf-8")
    found = lint(contract)
    assert found.returncode == 1, found.stdout
    assert re.search(
        rf"harbour is not allowed to import {imports.split()[1].split('.')[0]}", found.stdout
    )


def test_a_mode_that_calls_a_model_itself_is_refused(contract: Path) -> None:
    (contract / "harbour" / "asking.py").write_text("import openai\n", encoding="utf-8")
    found = lint(contract)
    assert found.returncode == 1, found.stdout
    assert "harbour.asking -> openai" in found.stdout


def test_a_part_of_the_engine_that_imports_a_mode_is_refused(contract: Path) -> None:
    # This package is copied and not linked, because a change through the link would change the
    # program itself.
    (contract / "agents").unlink()
    shutil.copytree(BASE / "agents", contract / "agents")
    (contract / "agents" / "asking.py").write_text("import harbour.mode\n", encoding="utf-8")
    found = lint(contract)
    assert found.returncode == 1, found.stdout
    assert "agents is not allowed to import harbour" in found.stdout
