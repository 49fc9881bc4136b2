"""Runs the processes of Story Engine's Procfile, and the fake model server.

Each process leads a process group of its own. The end of a run ends the whole group.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from http.client import HTTPException
from pathlib import Path
from typing import Any

from testing.http_calls import RunError, Server, call

ROOT = Path(__file__).resolve().parent.parent
LOOPBACK = "127.0.0.1"
STOP_SECONDS = 10.0
# Variables whose names begin with one of these texts are not inherited from the developer's shell.
_OUR_VARIABLES = (
    "STORYENGINE_", "OPENAI_", "DATABASE_URL", "CELERY_", "SECRET_KEY", "DEBUG", "PORT",
    "FORWARDED_ALLOW_IPS",
)  # fmt: skip


class Processes:
    """The programs of a run. Each has a log file."""

    def __init__(self, environment: dict[str, str], log_folder: Path) -> None:
        self.environment = environment
        self._log_folder = log_folder
        self._stack = ExitStack()
        # Maps each name to the process that was last started under this name.
        self.by_name: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self, name: str, command: list[str], variables: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[bytes]":
        """Start a program. `variables` are of its environment alone."""
        log = self._stack.enter_context((self._log_folder / f"{name}.log").open("wb"))
        process = subprocess.Popen(  # noqa: S603 - the commands are this repository's own
            command,
            cwd=ROOT,
            env={**self.environment, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._stack.callback(end_group, process)
        self.by_name[name] = process
        return process

    def kill(self, name: str) -> None:
        """End the process and its children at once, as a crash would."""
        process = self.by_name[name]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=STOP_SECONDS)

    def run(self, name: str, command: list[str], *, timeout: float = 300.0) -> str:
        """Run a program to its end, and return its standard output. Raise RunError if it
        fails."""
        done = subprocess.run(  # noqa: S603 - the commands are this repository's own
            command,
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RunError(f"{name} failed:\n{done.stdout[-2_000:]}{done.stderr[-4_000:]}")
        return done.stdout

    def follow_results(self, name: str, command: list[str]) -> Iterator[dict[str, Any]]:
        """Run a program to its end. Yield each JSON object as soon as it is printed, and print
        every other line. Raise RunError if the program fails."""
        for line in self.follow(name, command):
            if line.startswith("{"):
                yield json.loads(line)
            else:
                print(line.rstrip(), flush=True)

    def follow(self, name: str, command: list[str]) -> Iterator[str]:
        """Run a program to its end. Yield each line as soon as it is printed. Raise RunError if
        the program fails."""
        with (self._log_folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - the commands are this repository's own
                command,
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                text=True,
            )
        try:
            yield from process.stdout or ()
            process.wait()
        finally:
            # If the caller was interrupted, the process still runs and must be ended here.
            if process.poll() is None:
                end_group(process)
            if process.stdout is not None:
                process.stdout.close()
        if process.returncode:
            raise RunError(f"{name} failed:\n{self.log_of(name)[-4_000:]}")

    def log_of(self, name: str) -> str:
        return (self._log_folder / f"{name}.log").read_text(errors="replace")

    def end_of_logs(self, lines: int = 12) -> str:
        """Return the last lines of each log. They are enough to show an error."""
        return "\n".join(
            "\n".join([f"--- {path.name}", *path.read_text(errors="replace").splitlines()[-lines:]])
            for path in sorted(self._log_folder.glob("*.log"))
        )

    def close(self) -> None:
        self._stack.close()


@contextmanager
def open_processes(environment: dict[str, str]) -> Iterator[Processes]:
    """Yield a Processes whose programs have a data folder of their own.

    At the end, end the processes and delete the folder.
    """
    # SIGTERM must lead to the clean-up below, as Ctrl-C does. Therefore it ends this program by an
    # exception.
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with tempfile.TemporaryDirectory(prefix="storyengine-run-") as folder:
            logs = Path(folder) / "logs"
            logs.mkdir()
            own = {"STORYENGINE_DATA": str(Path(folder) / "data"), **environment}
            processes = Processes({**inherited_environment(), **own}, logs)
            try:
                yield processes
            finally:
                processes.close()
    finally:
        signal.signal(signal.SIGTERM, previous)


def inherited_environment() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if not name.startswith(_OUR_VARIABLES)
    }


def start_program(processes: Processes) -> Server:
    """Prepare the data, start the processes of the Procfile, and wait until the program answers
    requests."""
    port = free_port()
    processes.environment["PORT"] = str(port)
    _collect_static_files()
    # The last line that `prepare` prints has honcho's arguments: --port N and the names of
    # processes.
    prepare = [sys.executable, "manage.py", "prepare"]
    wanted = processes.run("prepare", prepare).splitlines()[-1].split()
    start_named(processes, wanted)
    server = Server(LOOPBACK, port)
    wait_for_server(server)
    return server


def wait_for_server(server: Server) -> None:
    wait_until(lambda: answers(server), "the program to serve", seconds=60)


@cache
def _collect_static_files() -> None:
    """Collect the static files once for all programs that this process starts."""
    with open_processes({}) as processes:
        command = [sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity=0"]
        processes.run("collectstatic", command)


def start_named(processes: Processes, names: Collection[str]) -> None:
    """Start the processes of the Procfile that have these names."""
    # The PATH begins with the folder of this Python's programs, because the Procfile names programs
    # without a folder.
    folder = str(Path(sys.executable).parent)
    processes.environment["PATH"] = folder + os.pathsep + os.environ.get("PATH", os.defpath)
    for name, command in procfile_lines():
        if name in names:
            processes.start(name, ["/bin/sh", "-c", command])


def start_second(
    processes: Processes, name: str, port: int, variables: Mapping[str, str] | None = None
) -> None:
    """Start a second process beside the one of the Procfile that has this name. It is called `web
    2` or `worker 2`. A web process serves at the port."""
    command = dict(procfile_lines())[name]
    if name == "worker":
        # Celery's workers of one machine need different names.
        command += " --hostname second@%h"
    own = {"PORT": str(port), **(variables or {})}
    processes.start(second_name(name), ["/bin/sh", "-c", command], own)


def second_name(name: str) -> str:
    return f"{name} 2"


def procfile_lines() -> list[tuple[str, str]]:
    text = (ROOT / "Procfile").read_text()
    return re.findall(r"^([A-Za-z0-9_-]+):\s*(.+)$", text, re.MULTILINE)


def start_model_server(processes: Processes, arguments: list[str]) -> str:
    """Start testing.fake_server, and return its base URL."""
    command = [sys.executable, "-m", "testing.fake_server", *arguments]
    processes.start("model", command)
    wait_until(lambda: "http://" in processes.log_of("model"), "the fake server", seconds=60)
    return processes.log_of("model").split()[0]


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float) -> None:
    """Wait until the condition is true. Raise RunError if it is not true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RunError(f"Waited {seconds:.0f} seconds for {what} in vain.")
        time.sleep(0.1)


def end_group(process: "subprocess.Popen[Any]") -> None:
    """End the process group by SIGTERM, or by SIGKILL if it ignores SIGTERM."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    process.wait(timeout=STOP_SECONDS)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def answers(server: Server, path: str = "/healthz", status: int = 200) -> bool:
    """Return whether the server answers a request of this path with this status."""
    try:
        return call(server, "GET", path, timeout=5).status == status
    except (OSError, HTTPException):
        return False
