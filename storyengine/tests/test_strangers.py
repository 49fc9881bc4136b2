"""Tests of the running web process with visitors who are not signed in."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from testing.http_calls import Server, call
from testing.program import LOOPBACK, end_group, free_port, inherited_environment, wait_until

pytestmark = [pytest.mark.processes, pytest.mark.one_stack]

PATIENCE = 60.0
# The limit on open files of the web process, as low as on some systems. The tests open more
# connections than this.
OPEN_FILES = 256
HALF = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
TOKEN = "token-of-the-test-0123456789"
UPLOADS, UPLOAD_BYTES = 25, 5_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("strangers")


@pytest.fixture(scope="module")
def environment(folder: Path) -> dict[str, str]:
    """Migrate a database, and return the environment of a program that uses it and asks for a
    password."""
    environment = inherited_environment() | {
        "PORT": str(free_port()),
        "STORYENGINE_DATA": str(folder),
        "STORYENGINE_PASSWORD": "correct horse battery staple",
        "STORYENGINE_HOST": LOOPBACK,
        "STORYENGINE_API_TOKEN": TOKEN,
        "STORYENGINE_LLM": "openai",
        # With DEBUG, the program serves static files that were not collected.
        "DEBUG": "true",
    }
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity=0"],
        cwd=settings.BASE_DIR,
        env=environment,
        check=True,
        capture_output=True,
    )
    return environment


class Running:
    def __init__(self, process: "subprocess.Popen[bytes]", port: int, folder: Path) -> None:
        self.process, self.server, self._folder = process, Server(LOOPBACK, port), folder

    def answers(self) -> bool:
        try:
            return call(self.server, "GET", "/healthz", timeout=PATIENCE).status == 200
        except OSError:
            return False

    def lines(self, event: str) -> list[dict[str, Any]]:
        text = (self._folder / "logs/web.log").read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        return [line for line in lines if line["event"] == event]

    def kept_on_disk(self) -> int:
        """Return the size of all deleted files that the process still has open, in bytes."""
        kept = 0
        for link in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with suppress(OSError):
                if "(deleted)" in os.readlink(link):
                    kept += link.stat().st_size
        return kept

    def memory(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024


@contextmanager
def running(environment: dict[str, str], folder: Path, **variables: str) -> Iterator[Running]:
    process = subprocess.Popen(  # noqa: S603
        ["sh", "-c", f'ulimit -n {OPEN_FILES} && exec "$0" manage.py serve', sys.executable],  # noqa: S607
        cwd=settings.BASE_DIR,
        env=environment | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        program = Running(process, int(environment["PORT"]), folder)
        wait_until(program.answers, "the program to serve", seconds=PATIENCE)
        yield program
    finally:
        end_group(process)


@pytest.fixture
def program(environment: dict[str, str], folder: Path) -> Iterator[Running]:
    with running(environment, folder) as program:
        yield program


def test_half_requests_keep_nobody_out_and_are_told_of(program: Running) -> None:
    with ExitStack() as stack:
        for _ in range(OPEN_FILES + 50):
            visitor = socket.create_connection((LOOPBACK, program.server.port), timeout=PATIENCE)
            stack.callback(visitor.close)
            visitor.sendall(HALF)
        assert call(program.server, "GET", "/healthz", timeout=PATIENCE).status == 200
    assert [line for line in program.lines("connections closed") if line["too_many"]]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc on this machine")
def test_uploads_of_strangers_are_kept_nowhere(program: Running) -> None:
    head = (
        f"POST /chapters/import HTTP/1.1\r\nHost: localhost\r\nContent-Length: {2 * UPLOAD_BYTES}"
    )
    before = program.memory()
    with ExitStack() as stack:
        for _ in range(UPLOADS):
            visitor = socket.create_connection((LOOPBACK, program.server.port), timeout=PATIENCE)
            stack.callback(visitor.close)
            visitor.sendall(head.encode() + b"\r\n\r\n")
            # The server reads only a part of these bytes. The visitor never sends the rest of the
            # body.
            visitor.sendall(b"x" * UPLOAD_BYTES)
        assert call(program.server, "GET", "/healthz", timeout=PATIENCE).status == 200
        assert program.kept_on_disk() < 1_000_000
        assert program.memory() - before < UPLOADS * UPLOAD_BYTES / 4


def guess(program: Running, address: str) -> int:
    headers = {"Authorization": "Bearer a guess", "X-Forwarded-For": address}
    return call(program.server, "GET", "/api/openapi.json", headers=headers).status


def test_the_pause_follows_no_address_that_a_visitor_wrote(
    environment: dict[str, str], folder: Path
) -> None:
    with running(environment, folder) as program:
        answers = [guess(program, f"203.0.113.{at}") for at in range(10)]
        assert answers == [401] * 9 + [429]
        assert {line["address"] for line in program.lines("token refused")} == {LOOPBACK}
    # The request comes through a proxy that the program trusts. A proxy adds the visitor's address
    # at the end of the header.
    with running(environment, folder, FORWARDED_ALLOW_IPS=LOOPBACK) as program:
        assert guess(program, "203.0.113.1, 198.51.100.7") == 401
        assert program.lines("token refused")[-1]["address"] == "198.51.100.7"
