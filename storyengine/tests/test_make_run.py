"""Tests of `make run` with the real Makefile, honcho and Procfile, and of Ctrl-C."""

import os
import re
import shutil
import signal
import subprocess
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from storyengine.tests.copying import copy_program
from storyengine.tests.running import servers_for_tests
from testing.http_calls import Server, call
from testing.program import LOOPBACK, end_group, free_port, inherited_environment, wait_until

pytestmark = pytest.mark.processes

# The longest wait for the start. Even a busy machine needs far less time.
START_SECONDS = 120
STOP_SECONDS = 60

Make = subprocess.Popen[bytes]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a copy of the program. Its .venv refers to the packages of the running tests, so that
    `make` installs nothing."""
    if shutil.which("make") is None:
        pytest.skip("no make on this machine: `make run` is not tried")
    project = tmp_path / "project"
    copy_program(project)
    shutil.copy2(Path(settings.BASE_DIR) / "Makefile", project)
    venv.EnvBuilder(symlinks=True).create(project / ".venv")
    place = {"base": str(project / ".venv"), "platbase": str(project / ".venv")}
    packages = Path(sysconfig.get_path("purelib", "venv", place))
    folders = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    (packages / "of_the_tests.pth").write_text("\n".join(folders) + "\n")
    # This file tells `make` that everything is installed.
    (project / ".venv/installed").touch()
    return project


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Yield the environment of a shell in which a user types `make run`.

    It names a model server, so that the embedded model is not started.
    """
    inherited = {
        name: value
        for name, value in inherited_environment().items()
        # The `make` that runs the tests has set these variables. The `make` of this test must not
        # see them.
        if not name.startswith(("MAKE", "MFLAGS"))
    }
    with servers_for_tests() as servers:
        yield {
            **inherited,
            **servers,
            "PORT": str(free_port()),
            "STORYENGINE_DATA": str(tmp_path / "data"),
            "STORYENGINE_LLM": "openai",
            "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
            "STORYENGINE_MODEL": "some-model",
        }


@pytest.fixture
def make(project: Path, environment: dict[str, str], tmp_path: Path) -> Iterator[Make]:
    with (tmp_path / "output").open("wb") as output:
        # The command gets a process group of its own, as a command that is typed into a shell does.
        make = subprocess.Popen(
            ["make", "run"],  # noqa: S607  (which make is the machine's own affair)
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        yield make
        end_group(make)
        # Each process that honcho has started leads a process group of its own.
        for pid in started_by(tmp_path).values():
            if is_running(pid):
                os.killpg(pid, signal.SIGKILL)


def output_of(folder: Path) -> str:
    return (folder / "output").read_text(errors="replace")


def started_by(folder: Path) -> dict[str, int]:
    """Return the name and the process id of each process that honcho has started."""
    lines = re.findall(r"(\w+)\.1 started \(pid=(\d+)\)", output_of(folder))
    return {name: int(pid) for name, pid in lines}


def is_running(group: int) -> bool:
    """Return whether any process of this process group is running."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_serves_until_ctrl_c_and_leaves_nothing_running(
    make: Make, environment: dict[str, str], tmp_path: Path
) -> None:
    server = Server(LOOPBACK, int(environment["PORT"]))
    wait_until(lambda: is_ready(server, make), "`make run` to serve", seconds=START_SECONDS)
    assert call(server, "GET", "/healthz").status == 200
    page = call(server, "GET", "/")
    assert page.status == 200
    (style,) = re.findall(rb'href="(/static/css/base\.[^"]+)"', page.body)
    assert call(server, "GET", style.decode()).status == 200
    # The line with the address comes from honcho, which may print it after the first answer.
    announced = f"Story Engine is at http://localhost:{server.port} "
    wait_until(lambda: announced in output_of(tmp_path), "its address", seconds=START_SECONDS)
    started = started_by(tmp_path)
    assert set(started) == {"web", "worker"}

    os.killpg(make.pid, signal.SIGINT)
    assert make.wait(timeout=STOP_SECONDS) in (0, -signal.SIGINT), output_of(tmp_path)
    # Each of these processes leads a process group, so this check includes its children.
    assert [name for name, pid in {"make": make.pid, **started}.items() if is_running(pid)] == []
    with pytest.raises(ConnectionRefusedError):
        call(server, "GET", "/healthz")
    # If a command has failed, make prints a line with three asterisks.
    assert not re.search(r"Traceback|\*\*\*", output_of(tmp_path)), output_of(tmp_path)


def is_ready(server: Server, make: Make) -> bool:
    """Return whether the program and a worker are ready. Fail if `make run` has ended."""
    assert make.poll() is None, "`make run` ended by itself."
    try:
        return call(server, "GET", "/readyz").status == 200
    except OSError:
        return False
