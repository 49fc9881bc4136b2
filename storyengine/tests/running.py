"""The whole program running for a test: web, worker and a scripted model server as processes."""

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
    model: FakeServer

    @property
    def url(self) -> str:
        return f"http://{self.server.host}:{self.server.port}"

    def restart(self, name: str) -> None:
        """Start a process of the Procfile again after it was killed."""
        self.processes.start(name, ["/bin/sh", "-c", dict(procfile_lines())[name]])


@contextmanager
def run_program(**timing: float) -> Iterator[RunningProgram]:
    """Runs on a fresh database and queue; on those of the environment's servers if it names any."""
    with start_fake_server(**timing) as model:
        environment = {
            "STORYENGINE_LLM": "openai",
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": "unused",
            "STORYENGINE_CONTEXT_WINDOW": "128000",
            "STORYENGINE_MAX_OUTPUT": "16000",
            **{f"STORYENGINE_MODEL_AGENT_{n}": f"agent-{n}" for n in range(10)},
        }
        for name in ("DATABASE_URL", "CELERY_BROKER_URL"):
            if value := os.environ.get(name):
                environment[name] = value
        with open_processes(environment) as processes:
            yield RunningProgram(start_program(processes), processes, model)
