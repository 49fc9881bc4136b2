"""The whole program running for a test: every process of the Procfile, on data of its own."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.fake_server import FakeServer, start_fake_server
from bench.http_calls import Server
from bench.program import Processes, open_processes, procfile_lines, start_program


@dataclass(frozen=True)
class RunningProgram:
    server: Server
    processes: Processes

    @property
    def url(self) -> str:
        return f"http://{self.server.host}:{self.server.port}"

    def restart(self, name: str) -> None:
        """Start a process of the Procfile again after it was killed."""
        self.processes.start(name, ["/bin/sh", "-c", dict(procfile_lines())[name]])


@dataclass(frozen=True)
class ScriptedProgram(RunningProgram):
    """The program with a model server that says and fails what a test asks of it."""

    model: FakeServer


@contextmanager
def run_program(environment: dict[str, str]) -> Iterator[RunningProgram]:
    """On a new database and queue, or on the servers that are named for tests.

    Never on those that the shell names for the program: somebody's chapters may lie there.
    """
    servers = {
        name: value
        for name in ("DATABASE_URL", "CELERY_BROKER_URL")
        if (value := os.environ.get(f"STORYENGINE_TEST_{name}"))
    }
    with open_processes({**environment, **servers}) as processes:
        yield RunningProgram(start_program(processes), processes)


@contextmanager
def run_scripted_program(
    *,
    first_token_ms: float = 0,
    tokens_per_second: float = 10_000,
    context_window: int = 128_000,
    max_output: int = 16_000,
) -> Iterator[ScriptedProgram]:
    with start_fake_server(
        first_token_ms=first_token_ms, tokens_per_second=tokens_per_second
    ) as model:
        environment = {
            "STORYENGINE_LLM": "openai",
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": "unused",
            "STORYENGINE_CONTEXT_WINDOW": str(context_window),
            "STORYENGINE_MAX_OUTPUT": str(max_output),
            **{f"STORYENGINE_MODEL_AGENT_{n}": f"agent-{n}" for n in range(10)},
        }
        with run_program(environment) as program:
            yield ScriptedProgram(program.server, program.processes, model)
