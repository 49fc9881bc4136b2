"""The container runs what `make run` runs."""

import re
from pathlib import Path

from django.conf import settings

BASE = Path(settings.BASE_DIR)


def read(name: str) -> str:
    return re.sub(r"\s+", " ", (BASE / name).read_text(encoding="utf-8"))


def procfile() -> dict[str, str]:
    lines = (BASE / "Procfile").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines)


def test_compose_has_the_commands_of_the_procfile() -> None:
    compose = read("compose.yaml")
    for name in ("web", "worker"):
        assert f"command: {procfile()[name].removeprefix('exec ')}" in compose.replace(">- ", "")
    assert "storyengine.processes --port 8000 web worker model" in compose


def test_compose_does_not_start_without_a_password() -> None:
    assert "STORYENGINE_PASSWORD: ${STORYENGINE_PASSWORD:?" in read("compose.yaml")


def test_the_image_does_not_run_as_root() -> None:
    dockerfile = read("Dockerfile")
    assert dockerfile.index("USER storyengine") < dockerfile.index("CMD")


def test_the_image_holds_no_settings_chapters_or_tests() -> None:
    lines = (BASE / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    assert {"!.env", "!var", "!.git", "!."} & set(lines) == set()
    assert lines.index("**/tests") > max(n for n, line in enumerate(lines) if line[:1] == "!")


def test_every_pinned_package_is_pinned_once() -> None:
    names = []
    for file in ("requirements.txt", "requirements-dev.txt"):
        for line in (BASE / file).read_text(encoding="utf-8").splitlines():
            if line and not line.startswith(("#", "-r")):
                name, pinned, _ = line.partition("==")
                assert pinned, line
                names.append(re.sub(r"\[.*\]", "", name).lower().replace("_", "-"))
    assert len(names) == len(set(names))
