"""Tests of the environment variables for the embedded model's process. No process is started."""

import io
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agents.llm.embedded.server import LlamaServer


class NoProcess:
    """A stand-in for a process. It keeps the environment with which the process would be
    started."""

    def __init__(self, **options: Any) -> None:
        self.environment: dict[str, str] = options["env"]
        self.stdin = io.BytesIO()
        self.stdout = io.BytesIO()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[NoProcess]:
    processes: list[NoProcess] = []

    def start(_command: list[str], **options: Any) -> NoProcess:
        processes.append(NoProcess(**options))
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    return processes


def environment_of_the_model(started: list[NoProcess]) -> dict[str, str]:
    LlamaServer(Path("model.gguf"), "some-model")
    (process,) = started
    return process.environment


def test_its_threads_wait_awake_for_a_moment_only(
    started: list[NoProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread without work should stay awake for a short time and then sleep.

    A thread that sleeps at once is slow on idle cores. A thread that stays awake for long slows
    down busy cores.
    """
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    turns = int(environment_of_the_model(started)["GOMP_SPINCOUNT"])
    assert 0 < turns < 1_000
