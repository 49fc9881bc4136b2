"""Tests of the log lines, the readiness check and the metrics of the whole running program."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from storyengine.tests.compose_file import SERVICES
from storyengine.tests.running import RunningProgram, run_program
from testing.fake_server import start_fake_server
from testing.http_calls import call
from testing.program import wait_until

pytestmark = pytest.mark.processes

WORDS = "marked-words-of-a-story"
KEY = "sk-marked-key-of-the-program"
TOKEN = "marked-token-of-the-program"
PASSWORD = "marked-password-of-the-program"
SECRETS = (WORDS, KEY, TOKEN, PASSWORD)
BEARER = {"Authorization": f"Bearer {TOKEN}"}
HEARTBEAT_PATIENCE = 60


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("watched")


@pytest.fixture(scope="module")
def program(data_folder: Path) -> Iterator[RunningProgram]:
    with start_fake_server(first_token_ms=0, tokens_per_second=10_000) as model:
        environment = {
            "STORYENGINE_DATA": str(data_folder),
            "STORYENGINE_LLM": "openai",
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": KEY,
            "STORYENGINE_API_TOKEN": TOKEN,
            "STORYENGINE_PASSWORD": PASSWORD,
            "STORYENGINE_CONTEXT_WINDOW": "128000",
            **{f"STORYENGINE_MODEL_AGENT_{n}": f"agent-{n}" for n in range(10)},
        }
        with run_program(environment) as running:
            # A model server may repeat words of the request in its error message. The tests check
            # that the logs have no words of the story.
            model.queue_faults("401", agent=2)
            yield running


def ask(program: RunningProgram, method: str, path: str, body: Any = None, **headers: str) -> Any:
    return call(program.server, method, path, body, headers={**BEARER, **headers})


def lines_of(data_folder: Path, process: str) -> list[dict[str, Any]]:
    text = (data_folder / "logs" / f"{process}.log").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def health_of_worker(program: RunningProgram) -> int:
    """Run the health check that compose.yaml has for the worker, and return its exit code."""
    command = SERVICES["worker"]["healthcheck"]["test"]
    assert command[:2] == ["CMD", "python"]
    environment = program.processes.environment
    return subprocess.run(  # noqa: S603
        [sys.executable, *command[2:]], cwd=settings.BASE_DIR, env=environment, check=False
    ).returncode


def is_without_worker(program: RunningProgram) -> bool:
    """Return whether the worker is missing while the database works."""
    checks = ask(program, "GET", "/readyz").json()["checks"]
    return bool(checks["database"]["ok"]) and not checks["worker"]["ok"]


def play_chapter(program: RunningProgram) -> str:
    """Set up and lock a chapter, and play two prompts. The second reply fails."""
    created = ask(program, "POST", "/api/session", {})
    path = f"/api/session/{created.json()['session_id']}"
    setup = {
        "world_text": WORDS,
        "chapter_text": WORDS,
        "selected_agent_slots": [1, 2],
        "agent_identity_text_by_slot": {"1": WORDS, "2": WORDS},
    }
    assert ask(program, "PUT", f"{path}/tab1", setup).status == 200
    locked = ask(program, "POST", f"{path}/lock", Prefer="wait=30", **{"X-Request-ID": "the-lock"})
    assert locked.status == 200, locked.body
    for slot, status in ((1, 201), (2, 502)):
        prompt = {"agent_slot": slot, "user_text": f"{WORDS} {slot}"}
        assert ask(program, "POST", f"{path}/prompt", prompt).status == status
    ask(program, "GET", f"{path}?q={WORDS}")
    return path.removeprefix("/api/session/")


@pytest.fixture(scope="module")
def session_id(program: RunningProgram) -> str:
    """Return the id of the chapter that was played."""
    return play_chapter(program)


def test_a_chapter_is_told_of_in_all_processes_and_none_of_its_words(
    program: RunningProgram, session_id: str, data_folder: Path
) -> None:
    call(program.server, "POST", "/login", {"password": WORDS})
    # The worker may write this line a moment after the request for the lock was answered.
    wait_until(
        lambda: "job done" in {line["event"] for line in lines_of(data_folder, "worker")},
        "the worker's last line",
        seconds=HEARTBEAT_PATIENCE,
    )
    web, worker = lines_of(data_folder, "web"), lines_of(data_folder, "worker")
    of_web = {line["event"] for line in web if line.get("session_id") == session_id}
    of_attempts = {"attempt stored", "attempt committed", "attempt failed"}
    assert {"request", "model call"} | of_attempts <= of_web
    (committed,) = [line for line in web if line["event"] == "attempt committed"]
    of_prompt = [line for line in web if line.get("request_id") == committed["request_id"]]
    assert {"request", "attempt stored", "model call"} <= {line["event"] for line in of_prompt}
    of_lock = [line for line in worker if line.get("request_id") == "the-lock"]
    assert {"job claimed", "model call", "job done"} <= {line["event"] for line in of_lock}
    assert {line["session_id"] for line in of_lock} == {session_id}
    logs = [path.read_text(encoding="utf-8") for path in (data_folder / "logs").iterdir()]
    consoles = [program.processes.log_of(name) for name in ("web", "worker")]
    for text in (*logs, *consoles):
        assert text
        assert not [secret for secret in SECRETS if secret in text]


@pytest.mark.usefixtures("session_id")
def test_it_is_ready_with_a_worker_whose_counts_it_tells_and_not_without(
    program: RunningProgram,
) -> None:
    wait_until(
        lambda: call(program.server, "GET", "/readyz").status == 200, "readiness", seconds=30
    )
    wait_until(
        lambda: ask(program, "GET", "/readyz").json()["provider"].get("state") == "allowed",
        "what is known of the provider",
        seconds=HEARTBEAT_PATIENCE,
    )
    assert call(program.server, "GET", "/metrics").status == 401
    series = 'storyengine_jobs_total{kind="lock",outcome="done",process="celery@'
    wait_until(
        lambda: series in ask(program, "GET", "/metrics").body.decode(),
        "the worker's counts",
        seconds=HEARTBEAT_PATIENCE,
    )
    assert health_of_worker(program) == 0
    program.processes.kill("worker")
    wait_until(
        lambda: is_without_worker(program),
        "the worker to be missed",
        seconds=HEARTBEAT_PATIENCE,
    )
    assert call(program.server, "GET", "/readyz").status == 503
    assert health_of_worker(program) == 1
    assert call(program.server, "GET", "/healthz").status == 200
