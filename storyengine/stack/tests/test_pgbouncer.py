"""Tests that the program works behind pgbouncer, which gives each transaction another connection to
PostgreSQL."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import psycopg
import pytest
from django.conf import settings

from storyengine.tests.running import ScriptedProgram, run_scripted_program
from storyengine.tests.url_map import addresses
from testing.http_calls import Answer, call, expect, stream
from testing.program import free_port, wait_until

DATABASE = os.environ.get("STORYENGINE_TEST_DATABASE_URL", "")
PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not PGBOUNCER, reason="pgbouncer is not installed"),
    pytest.mark.skipif(not DATABASE, reason="STORYENGINE_TEST_DATABASE_URL names no PostgreSQL"),
]

# So few connections to the server, and so many requests at a time that share them.
CONNECTIONS, READERS, ROUNDS = 3, 8, 4
# Enough prompts that a transcript is read by a cursor where there are any.
PROMPTS = 12


@pytest.fixture(scope="module")
def pooled() -> Iterator[str]:
    """Start pgbouncer before the PostgreSQL server for tests, and yield the address."""
    port = free_port()
    address = urlsplit(DATABASE)._replace(netloc=f"player:unused@127.0.0.1:{port}").geturl()
    with tempfile.TemporaryDirectory(prefix="storyengine-pgbouncer-") as folder:
        process = start_pgbouncer(Path(folder), port)
        try:
            wait_until(partial(answers, address), "pgbouncer", seconds=20)
            yield address
        finally:
            process.terminate()
            process.wait(20)


def answers(address: str) -> bool:
    try:
        psycopg.connect(address, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def start_pgbouncer(folder: Path, port: int) -> "subprocess.Popen[bytes]":
    to = urlsplit(DATABASE)
    server = {"host": to.hostname, "port": to.port or 5432, "user": to.username}
    if to.password:
        server["password"] = unquote(to.password)
    file = folder / "pgbouncer.ini"
    file.write_text(
        f"""[databases]
* = {" ".join(f"{name}={value}" for name, value in server.items())}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {CONNECTIONS}
max_client_conn = 200
"""
    )
    # pgbouncer refuses to run as root.
    user = None if os.getuid() else "nobody"
    if user:
        shutil.chown(folder, user)
        shutil.chown(file, user)
    return subprocess.Popen(  # noqa: S603
        [str(PGBOUNCER), "--quiet", str(file)], cwd="/", user=user
    )


@pytest.fixture(scope="module")
def program(pooled: str) -> Iterator[ScriptedProgram]:
    also = {"STORYENGINE_PGBOUNCER": "true"}
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("STORYENGINE_TEST_DATABASE_URL", pooled)
        with run_scripted_program(also=also) as running:
            yield running


def answers_to_all(program: ScriptedProgram, paths: list[str]) -> list[tuple[str, Answer]]:
    """Ask for all of the paths several times, many at a time."""

    def ask(path: str) -> tuple[str, Answer]:
        return path, call(program.server, "GET", path)

    with ThreadPoolExecutor(READERS) as readers:
        return list(readers.map(ask, paths * ROUNDS))


def play(program: ScriptedProgram, session_id: str, words: str) -> dict[str, Any]:
    body = {"agent_slot": 1, "user_text": words}
    events = list(stream(program.server, f"/api/session/{session_id}/prompt", body))
    assert [event.name for event in events if event.name == "error"] == []
    return dict(json.loads(events[-1].data))


def test_every_page_answers_and_a_chapter_is_played_and_copied(program: ScriptedProgram) -> None:
    server = program.server
    [starter, *_] = expect(200, call(server, "GET", "/api/starters"))
    chapter = expect(201, call(server, "POST", "/api/session", {"starter": starter["name"]}))
    session_id = chapter["session_id"]
    began = chapter["prompt_index"]
    for number in range(PROMPTS):
        answer = play(program, session_id, f"Beat {number}.")
    assert answer["prompt_index"] == began + PROMPTS

    exported = expect(200, call(server, "GET", f"/api/session/{session_id}/export"))
    copy = expect(201, call(server, "POST", "/api/session/import", exported))
    fork = expect(
        201, call(server, "POST", f"/api/session/{session_id}/fork", {"number": began + 3})
    )
    assert copy["prompt_index"] == began + PROMPTS
    assert fork["prompt_index"] == began + 3

    known = {"session_id": session_id, "story_id": chapter["story_id"], "number": "1"}
    paths = [path for path in addresses(known) if "stream" not in path and "log" not in path]
    assert len(paths) > 100
    failed = [(path, answer.status) for path, answer in answers_to_all(program, paths)
              if answer.status >= 500 and not path.startswith("/readyz")]  # fmt: skip
    assert not failed

    # The processes tell each other apart in the metrics, and say that backups need another way.
    metrics = call(server, "GET", "/metrics").body.decode()
    assert 'process="web@' in metrics
    assert 'process="celery@' in metrics
    assert 'process="web"' not in metrics
    assert "storyengine.W023" in program.processes.log_of("web")
    assert "storyengine.W021" not in program.processes.log_of("web")


def test_a_backup_goes_past_it(program: ScriptedProgram) -> None:
    own = program.processes.environment
    direct = urlsplit(DATABASE)._replace(path=urlsplit(own["DATABASE_URL"]).path).geturl()
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "manage.py", "backup"],
            env={
                **own,
                "STORYENGINE_DIRECT_DATABASE_URL": direct,
                "STORYENGINE_BACKUPS": folder,
            },
            cwd=settings.BASE_DIR,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        [backup] = Path(folder).glob("*.dump")
        assert backup.stat().st_size > 0
