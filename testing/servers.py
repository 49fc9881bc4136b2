"""Runs a PostgreSQL and a Redis on loopback for one run. They can be killed and started again."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import redis

from testing.http_calls import RunError
from testing.program import LOOPBACK, Processes, free_port, wait_until

START_SECONDS = 60
NAME = "storyengine"


class Servers:
    """A PostgreSQL and a Redis, in one folder. After a kill, PostgreSQL starts again with the data
    that it has on the disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._postgres_port, self._redis_port = free_port(), free_port()
        self._programs = _postgres_programs()
        self._data = folder / "postgres"
        # PostgreSQL refuses to run as root.
        self._as_postgres = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        self._prepare()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "DATABASE_URL": f"postgres://{NAME}@{LOOPBACK}:{self._postgres_port}/postgres",
            "CELERY_BROKER_URL": f"redis://{LOOPBACK}:{self._redis_port}/0",
        }

    def start_postgres(self, processes: Processes) -> None:
        """Start PostgreSQL. Try again for some time, because processes of a killed PostgreSQL may
        still use its shared memory."""
        command = [
            *(*self._as_postgres, str(self._programs / "postgres"), "-D", str(self._data)),
            *("-p", str(self._postgres_port), "-h", LOOPBACK, "-k", str(self._data)),
        ]

        def is_up() -> bool:
            process = processes.by_name.get("postgres")
            if process is None or process.poll() is not None:
                processes.start("postgres", command)
            return self._postgres_answers()

        wait_until(is_up, "PostgreSQL", seconds=START_SECONDS)

    def start_redis(self, processes: Processes) -> None:
        """Start Redis. It stores nothing on the disk, so a kill loses its queue."""
        command = ["redis-server", "--bind", LOOPBACK, "--port", str(self._redis_port)]
        folder = ["--dir", str(self._folder), "--save", "", "--appendonly", "no"]
        processes.start("redis", [*command, *folder])
        wait_until(self._redis_answers, "Redis", seconds=START_SECONDS)

    def _prepare(self) -> None:
        if shutil.which("redis-server") is None:
            raise RunError("There is no redis-server here; install it, or leave --servers out.")
        self._data.mkdir()
        if self._as_postgres:
            self._folder.chmod(0o755)
            shutil.chown(self._data, "postgres")
        command = [str(self._programs / "initdb"), f"--pgdata={self._data}", f"--username={NAME}"]
        subprocess.run(  # noqa: S603  (PostgreSQL's own program)
            [*self._as_postgres, *command, "--auth=trust", "--encoding=UTF8"],
            check=True,
            cwd=self._data,
            stdout=subprocess.DEVNULL,
        )

    def _postgres_answers(self) -> bool:
        try:
            psycopg.connect(self.environment["DATABASE_URL"], connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _redis_answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.environment["CELERY_BROKER_URL"]) as server:
                return bool(server.ping())
        except redis.ConnectionError:
            return False


@contextmanager
def own_servers() -> Iterator[Servers]:
    with TemporaryDirectory(prefix="storyengine-servers-") as folder:
        yield Servers(Path(folder))


def _postgres_programs() -> Path:
    """Return the folder of the programs initdb and postgres, which on Debian is not on the PATH."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not places:
        raise RunError("There is no PostgreSQL here; install it, or leave --servers out.")
    return places[-1].parent
