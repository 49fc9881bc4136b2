"""Runs the program, its model server, and its PostgreSQL and Redis. Each can be killed and started
again."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.scenarios import Scenario
from chaos.schedule import FAULTS_ELSEWHERE, KILLS_OF_PROGRAM, KILLS_OF_SERVERS
from testing.http_calls import RunError, Server, call
from testing.program import (
    LOOPBACK,
    Processes,
    answers,
    free_port,
    open_processes,
    second_name,
    start_named,
    start_program,
    start_second,
    wait_until,
)
from testing.servers import Servers, own_servers

START_SECONDS = 60
MODEL = "model-server"
# The timing of the model server. It is slow enough for a fault in the middle of a reply or a
# summary.
FIRST_TOKEN_MS, TOKENS_PER_SECOND, CHAPTER_WORDS = 30, 300, 250


# The processes of the program that a run with servers of its own starts twice.
TWICE = ("web", "worker")
# Where Debian's package faketime has its library, for programs with several threads.
LIBRARIES, FAKETIME = Path("/usr/lib"), "*/faketime/libfaketimeMT.so.1"


@dataclass(frozen=True)
class Clock:
    """A clock that is ahead of the clock of this machine by some seconds, or behind it."""

    seconds: int

    def variables(self) -> dict[str, str]:
        """Return variables with which a program gets this clock. Raise RunError if the library
        for it is not installed. How long something takes stays as it is."""
        found = sorted(LIBRARIES.glob(FAKETIME))
        if not found:
            raise RunError(
                "There is no libfaketime here. Install Debian's package `faketime`, or leave "
                "--clock-ahead out."
            )
        return {
            "LD_PRELOAD": str(found[-1]),
            "FAKETIME": f"{self.seconds:+d}s",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }


class Stack:
    """All processes of a run. With servers of its own, there are two web processes and two workers,
    and the second of each may have another clock."""

    def __init__(
        self, processes: Processes, servers: Servers | None, clock: Clock | None = None
    ) -> None:
        self.processes = processes
        self._servers = servers
        self._variables = clock.variables() if clock else {}
        self._model_port = free_port()
        self._model = Server("127.0.0.1", self._model_port)
        processes.environment["OPENAI_BASE_URL"] = f"http://127.0.0.1:{self._model_port}/v1"
        if servers is not None:
            processes.environment.update(servers.environment)
            servers.start_postgres(processes)
            servers.start_redis(processes)
        self.scenarios = self._read_scenarios()
        self._start_model()
        self.programs = [start_program(processes)]
        if servers is not None:
            self.programs.append(Server(LOOPBACK, free_port()))
            for name in TWICE:
                self._start_second(name)
            wait_until(self.is_served, "the second web process", seconds=START_SECONDS)

    @property
    def kills(self) -> tuple[str, ...]:
        """The kinds of kill that this run can use. Only a run with servers of its own can kill
        PostgreSQL and Redis."""
        return KILLS_OF_PROGRAM if self._servers is None else KILLS_OF_PROGRAM + KILLS_OF_SERVERS

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """The kinds of fault that need a second web process."""
        return FAULTS_ELSEWHERE if len(self.programs) > 1 else ()

    def kill_and_start(self, kind: str, choice: int) -> bool:
        """Kill one process and start it again. Return whether the process was still running before
        the kill. If there are two processes of this kind, `choice` decides between them."""
        name = MODEL if kind == "kill-model" else kind.removeprefix("kill-")
        is_second = name in TWICE and len(self.programs) > 1 and choice % 2 == 1
        if is_second:
            was_hit = was_killed(self.processes, second_name(name))
            self._start_second(name)
            wait_until(self.is_served, "the pages after a kill", seconds=START_SECONDS)
            return was_hit
        was_hit = was_killed(self.processes, name)
        match name:
            case _ if name == MODEL:
                self._start_model()
            case "postgres" if self._servers is not None:
                self._servers.start_postgres(self.processes)
            case "redis" if self._servers is not None:
                self._servers.start_redis(self.processes)
            case _:
                start_named(self.processes, [name])
        wait_until(self.is_served, "the pages after a kill", seconds=START_SECONDS)
        return was_hit

    @contextmanager
    def hanging(self, name: str) -> Iterator[None]:
        """Suspend a process while the block runs. The process keeps its connections, but answers
        nothing."""
        group = self.processes.by_name[name].pid
        os.killpg(group, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(group, signal.SIGCONT)

    def is_served(self) -> bool:
        return all(answers(program) for program in self.programs)

    def queue_faults(self, name: str, repeats: int, agent: int | None) -> None:
        self._control({"clear": True, "faults": [name] * repeats, "agent": agent})

    def unmet_faults(self) -> int:
        """Drop the faults that are still queued in the model server, and return their number."""
        left = len(self._control({})["faults"])
        self._control({"clear": True})
        return left

    def read_rows(self) -> dict[str, Any]:
        """Let a separate program read the rows of the program's database, and return them."""
        command = [sys.executable, "-m", "chaos.rows"]
        rows: dict[str, Any] = json.loads(self.processes.run("rows", command).splitlines()[-1])
        return rows

    def _read_scenarios(self) -> list[Scenario]:
        command = [sys.executable, "-m", "chaos.scenarios"]
        found = json.loads(self.processes.run("scenarios", command).splitlines()[-1])
        return [Scenario(**one) for one in found]

    def _start_second(self, name: str) -> None:
        start_second(self.processes, name, self.programs[1].port, self._variables)

    def _start_model(self) -> None:
        options = [
            f"--port={self._model_port}",
            f"--first-token-ms={FIRST_TOKEN_MS}",
            f"--tokens-per-second={TOKENS_PER_SECOND}",
            f"--chapter-words={CHAPTER_WORDS}",
            "--reply-end=" + "\n\n".join(filter(None, (one.replies_end for one in self.scenarios))),
        ]
        self.processes.start(MODEL, [sys.executable, "-m", "testing.fake_server", *options])
        wait_until(
            lambda: "http://" in self.processes.log_of(MODEL), "the model", seconds=START_SECONDS
        )

    def _control(self, wish: dict[str, Any]) -> dict[str, Any]:
        status: dict[str, Any] = call(self._model, "POST", "/control", wish, timeout=10).json()
        return status


def was_killed(processes: Processes, name: str) -> bool:
    """Kill a process as a crash would. Return whether the process was still running before the
    kill."""
    with suppress(ProcessLookupError):
        processes.kill(name)
    return processes.by_name[name].returncode == -signal.SIGKILL


@contextmanager
def open_stack(*, with_servers: bool, clock: Clock | None = None) -> Iterator[Stack]:
    """Yield the running program. It runs on SQLite and a broker in a folder. With `with_servers`,
    it runs as two web processes and two workers on a PostgreSQL and a Redis of its own, which may
    be killed. The second of each has the `clock`."""
    environment = {
        "STORYENGINE_LLM": "openai",
        "OPENAI_API_KEY": "unused",
        "STORYENGINE_CONTEXT_WINDOW": "128000",
        "STORYENGINE_MAX_OUTPUT": "16000",
        "STORYENGINE_CALLS_PER_MINUTE": "1000000",
        **{f"STORYENGINE_MODEL_AGENT_{n}": f"agent-{n}" for n in range(10)},
    }
    with ExitStack() as stack:
        servers = stack.enter_context(own_servers()) if with_servers else None
        yield Stack(stack.enter_context(open_processes(environment)), servers, clock)
