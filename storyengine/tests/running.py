"""The whole program in a test: every process of the Procfile, with data of its own."""

import fcntl
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

import psycopg
import redis
from psycopg import sql

from testing.fake_server import FakeServer, start_fake_server
from testing.http_calls import RunError, Server
from testing.program import Processes, open_processes, procfile_lines, start_program

# The number of databases that a Redis server has by default.
_REDIS_DATABASES = 16
# The number of Redis databases for each process that runs tests. The four test processes of `make
# test` therefore fit into one Redis server.
_QUEUES = 4
_queue_numbers = count()
SQLITE_FILE = "storyengine.sqlite3"


@dataclass(frozen=True)
class RunningProgram:
    server: Server
    processes: Processes

    @property
    def url(self) -> str:
        return f"http://{self.server.host}:{self.server.port}"

    def restart(self, name: str) -> None:
        self.processes.start(name, ["/bin/sh", "-c", dict(procfile_lines())[name]])


@dataclass(frozen=True)
class ScriptedProgram(RunningProgram):
    """The running program, with a model server whose answers and failures the test chooses."""

    model: FakeServer


@contextmanager
def run_program(environment: dict[str, str]) -> Iterator[RunningProgram]:
    """Run the program with a database and a queue of its own.

    Both are files, unless the environment names servers for tests.
    """
    with servers_for_tests() as servers, open_processes({**environment, **servers}) as processes:
        if "DATABASE_URL" not in servers:
            _put_database_into(Path(processes.environment["STORYENGINE_DATA"]))
        yield RunningProgram(_start(processes), processes)


def _put_database_into(folder: Path) -> None:
    """Put a database to which all migrations were applied into the data folder. Otherwise each
    program would apply them anew when it starts, which takes ten seconds."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    database = folder / SQLITE_FILE
    database.touch(mode=0o600)
    database.write_bytes(_migrated_database())


class SharedFolder:
    """The folder that all processes of a test run share, or None for a process alone."""

    path: Path | None = None


@cache
def _migrated_database() -> bytes:
    """Return the content of the database. The first of the processes that need it makes it."""
    if SharedFolder.path is None:
        return _migrate()
    file = SharedFolder.path / "migrated.sqlite3"
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            file.write_bytes(_migrate())
    return file.read_bytes()


def _migrate() -> bytes:
    with open_processes({}) as processes:
        command = [sys.executable, "manage.py", "migrate", "--verbosity=0"]
        processes.run("migrate", command)
        return (Path(processes.environment["STORYENGINE_DATA"]) / SQLITE_FILE).read_bytes()


def is_alive(pid: int) -> bool:
    """Return whether the process runs.

    The process may be a child of another process. It does not count as running after it has ended,
    even if nobody has waited for it yet.
    """
    command = ["ps", "-o", "stat=", "-p", str(pid)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    return bool(said) and not said.startswith("Z")


@contextmanager
def servers_for_tests() -> Iterator[dict[str, str]]:
    """Yield environment variables that name a new database and an empty queue on the servers for
    tests. Yield none if there are no servers for tests.

    The shell's own DATABASE_URL and CELERY_BROKER_URL are never used, because their servers may
    store somebody's chapters.
    """
    named: dict[str, str] = {}
    with ExitStack() as servers:
        if url := os.environ.get("STORYENGINE_TEST_DATABASE_URL"):
            named["DATABASE_URL"] = servers.enter_context(_new_database(url))
        if url := os.environ.get("STORYENGINE_TEST_CELERY_BROKER_URL"):
            named["CELERY_BROKER_URL"] = servers.enter_context(_queue(url))
        yield named


def _start(processes: Processes) -> Server:
    try:
        return start_program(processes)
    except RunError as error:
        error.add_note(processes.end_of_logs())
        raise


@contextmanager
def _new_database(url: str) -> Iterator[str]:
    """Make a database on the PostgreSQL server at this URL. Drop the database afterwards."""
    name = f"storyengine_{uuid.uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield urlsplit(url)._replace(path=f"/{name}").geturl()
        finally:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def _queue(url: str) -> Iterator[str]:
    """Yield the URL of a numbered database of the Redis server. Empty the database afterwards."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    number = (worker * _QUEUES + next(_queue_numbers) % _QUEUES) % _REDIS_DATABASES
    own = urlsplit(url)._replace(path=f"/{number}").geturl()
    try:
        yield own
    finally:
        with redis.Redis.from_url(own) as server:
            server.flushdb()


@contextmanager
def run_scripted_program(
    *,
    first_token_ms: float = 0,
    tokens_per_second: float = 10_000,
    context_window: int = 128_000,
    max_output: int = 16_000,
    data_folder: Path | None = None,
    also: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[ScriptedProgram]:
    """Run the program with a scripted model server. `also` are further variables of the
    environment."""
    with start_fake_server(
        first_token_ms=first_token_ms, tokens_per_second=tokens_per_second
    ) as model:
        environment = {
            "STORYENGINE_LLM": "openai",
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": "unused",
            "STORYENGINE_CONTEXT_WINDOW": str(context_window),
            "STORYENGINE_MAX_OUTPUT": str(max_output),
            # The model of agents without a number. It calls tools.
            "STORYENGINE_MODEL": "o4-mini",
            **{f"STORYENGINE_MODEL_AGENT_{n}": f"agent-{n}" for n in range(10)},
            **also,
        }
        if data_folder is not None:
            environment["STORYENGINE_DATA"] = str(data_folder)
        with run_program(environment) as program:
            yield ScriptedProgram(program.server, program.processes, model)
