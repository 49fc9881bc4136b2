"""Tests of the real llama.cpp server with the small model: who may use it, and how it ends."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from agents.llm.embedded.access_key import access_key
from agents.llm.embedded.embedded_errors import ServerFailed
from agents.llm.embedded.server import LlamaServer
from agents.llm.embedded.tests.embedded_model import run_small_model

pytestmark = pytest.mark.real_model

# Even on a busy machine, a process ends well within this many seconds.
END_SECONDS = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[LlamaServer]:
    with run_small_model() as running:
        yield running


def ask(server: LlamaServer, headers: dict[str, str]) -> tuple[int, dict[str, str]]:
    """Send a short chat call and return the status and the headers of the answer."""
    url = urllib.parse.urlsplit(server.base_url)
    connection = http.client.HTTPConnection(url.netloc)
    body = json.dumps({"messages": [{"role": "user", "content": "Hi."}], "max_tokens": 1})
    connection.request("POST", f"{url.path}/chat/completions", body, headers)
    with connection.getresponse() as answer:
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}


def wait_for_end(server: LlamaServer) -> None:
    """Check the server until it has ended, or until END_SECONDS are over.

    The check raises ServerFailed when the server has ended.
    """
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline:
        server.check()


def test_it_serves_on_loopback_with_room_for_a_long_prompt(server: LlamaServer) -> None:
    assert server.base_url.startswith("http://127.0.0.1:")
    assert server.check()
    assert server.context_window() == 8192


def test_it_answers_only_who_has_the_key(server: LlamaServer) -> None:
    assert ask(server, {})[0] == 401
    assert ask(server, {"Authorization": "Bearer wrong"})[0] == 401
    assert ask(server, {"Authorization": f"Bearer {access_key()}"})[0] == 200


def test_no_web_page_may_read_its_answers(server: LlamaServer) -> None:
    headers = {"Authorization": f"Bearer {access_key()}", "Origin": "https://page.example"}
    _status, answer = ask(server, headers)
    assert answer.get("access-control-allow-origin") not in ("*", "https://page.example")


def test_the_key_is_not_in_the_list_of_processes(server: LlamaServer) -> None:
    command = Path(f"/proc/{server.pid}/cmdline")
    if command.exists():
        assert access_key() not in command.read_text()


def test_a_killed_server_is_noticed() -> None:
    with run_small_model() as server:
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(ServerFailed, match="memory"):
            wait_for_end(server)


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    server = LlamaServer(tmp_path / "bad.gguf", "bad")
    try:
        with pytest.raises(ServerFailed, match=r"bad\.gguf"):
            server.wait_until_up(END_SECONDS)
    finally:
        server.end()


def test_it_does_not_outlive_its_parent() -> None:
    script = (
        "import django; django.setup()\n"
        "from agents.llm.embedded.tests.embedded_model import run_small_model\n"
        "with run_small_model() as server:\n"
        "    print(server.pid, flush=True)\n"
        "    input()\n"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "storyengine.settings"}
    parent = subprocess.Popen(  # noqa: S603  (this test's own words)
        [sys.executable, "-c", script],
        cwd=settings.BASE_DIR,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + END_SECONDS
    while is_running(child):
        assert time.monotonic() < deadline, "It still runs."
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # The state is read here, because an ended process stays in the list of processes as a zombie
    # until its new parent process asks for its exit code.
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] == "Z")
