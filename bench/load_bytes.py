"""Measures the bytes that a turn writes to the database, early and late in a chapter. The figures
count the bytes of artifacts separately."""

import sqlite3
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import psycopg

from bench.figure import Figure
from bench.load_stack import LoadStack
from testing.http_calls import RunError, Server, call
from testing.program import wait_until
from testing.session_data import beat_text

EARLY, LATE = 50, 5_000
# The number of turns that are measured, which is one stretch. The summary of the stretch is
# measured too.
CHUNK = 7
MOST_RATIO = 1.2
# The database's tables of artifacts and of the texts of their requests.
ARTIFACTS = ("agents_llmartifact", "agents_prompttext")
# The sizes in bytes of headers in SQLite's write-ahead log:
# https://www.sqlite.org/fileformat2.html#walformat
_WAL_HEADER, _FRAME_HEADER = 32, 24


class Meter(Protocol):
    def start(self) -> None: ...

    def stop(self) -> tuple[int, int]:
        """Return two numbers of bytes that were written since the start: the bytes of artifacts,
        and all other bytes."""


def measure_bytes(stack: LoadStack, *, late: int) -> list[Figure]:
    stack.set_pace(100_000, first_token_ms=1)
    per_turn = {number: _written_at(stack, number) for number in (EARLY, late)}
    return [bytes_figure(per_turn)]


def bytes_figure(per_turn: dict[int, tuple[float, float]]) -> Figure:
    """Return the figure. `per_turn` maps the number of a turn to two numbers of bytes that a turn
    at this place writes: the bytes of artifacts, and all other bytes."""
    early, late = (per_turn[number] for number in sorted(per_turn))
    ratio = late[1] / early[1]
    shown = ", ".join(
        f"{rest / 1e3:.0f} KB at {number:,} (artifacts {artifacts / 1e3:.0f} KB)"
        for number, (artifacts, rest) in sorted(per_turn.items())
    )
    return Figure(
        "Bytes that a turn adds to the database's log, late over early, artifacts apart",
        ratio,
        f"{ratio:.2f} ({shown})",
        f"at most {MOST_RATIO}",
        ratio <= MOST_RATIO,
    )


def _written_at(stack: LoadStack, number: int) -> tuple[float, float]:
    session_id = stack.build("turns", number - 1)
    # The first turn of a process is not measured, because it may write more than the later turns.
    _play_and_wait(stack, session_id, 0)
    meter: Meter = PostgresMeter(stack) if stack.has_servers else SqliteMeter(stack)
    artifacts = rest = 0
    for turn in range(1, CHUNK + 1):
        meter.start()
        _play_and_wait(stack, session_id, turn)
        written = meter.stop()
        artifacts, rest = artifacts + written[0], rest + written[1]
    return artifacts / CHUNK, rest / CHUNK


def play_turn(
    stack: LoadStack, session_id: str, turn: int, *, server: Server | None = None
) -> None:
    path = f"/api/session/{session_id}"
    body = {"agent_slot": turn % 3 + 1, "user_text": beat_text(turn)}
    answer = call(server or stack.program, "POST", f"{path}/prompt", body)
    if answer.status != 201:
        raise RunError(f"POST {path}/prompt: {answer.status} {answer.body[:300]!r}")


def _play_and_wait(stack: LoadStack, session_id: str, turn: int) -> None:
    play_turn(stack, session_id, turn)
    wait_until_quiet(stack, session_id)


def wait_until_quiet(stack: LoadStack, session_id: str) -> None:
    """If the turn has made a summary due, wait until the summary is stored and its call is
    recorded."""

    def is_quiet() -> bool:
        chapter = call(stack.program, "GET", f"/api/session/{session_id}").json()
        return all(job["status"] not in ("queued", "running") for job in chapter["jobs"])

    wait_until(is_quiet, "the summary", seconds=60)
    # The program records a call a moment after the answer has arrived.
    time.sleep(0.3)


class SqliteMeter:
    """A meter that counts the pages in SQLite's write-ahead log. Each page belongs to one table or
    index."""

    def __init__(self, stack: LoadStack) -> None:
        folder = Path(stack.processes.environment["STORYENGINE_DATA"])
        self._path = folder / "storyengine.sqlite3"
        self._database = sqlite3.connect(self._path, isolation_level=None, timeout=20)

    def start(self) -> None:
        busy, _, _ = self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise RunError("The database's log cannot be emptied.")

    def stop(self) -> tuple[int, int]:
        page_size, pages = read_wal(self._path.with_name(self._path.name + "-wal").read_bytes())
        owners = dict(
            self._database.execute(
                "SELECT pageno, tbl_name FROM dbstat JOIN sqlite_schema USING (name)"
            )
        )
        of_artifacts = sum(owners.get(page) in ARTIFACTS for page in pages)
        return of_artifacts * page_size, (len(pages) - of_artifacts) * page_size


def read_wal(content: bytes) -> tuple[int, Sequence[int]]:
    """Return the size of a page, and the numbers of the written pages in the order of the log."""
    if len(content) < _WAL_HEADER:
        return 0, []
    page_size: int = struct.unpack_from(">I", content, 8)[0]
    salts = content[16:24]
    step = _FRAME_HEADER + page_size
    frames = range(_WAL_HEADER, len(content) - step + 1, step)
    return page_size, [
        struct.unpack_from(">I", content, at)[0]
        for at in frames
        if content[at + 8 : at + 16] == salts
    ]


class PostgresMeter:
    """A meter that adds up the records in PostgreSQL's write-ahead log. It leaves out the copies of
    whole pages, which PostgreSQL writes at a page's first change after a checkpoint."""

    def __init__(self, stack: LoadStack) -> None:
        self._database = psycopg.connect(
            stack.processes.environment["DATABASE_URL"], autocommit=True
        )
        self._database.execute("CREATE EXTENSION IF NOT EXISTS pg_walinspect")
        # VACUUM runs before the measurement, so that autovacuum has nothing to write during it.
        self._database.execute("VACUUM ANALYZE")
        self._begin = ""

    def start(self) -> None:
        self._begin = self._now()

    def stop(self) -> tuple[int, int]:
        rows = self._database.execute(
            "SELECT block_ref, record_length - fpi_length FROM pg_get_wal_records_info(%s, %s)",
            [self._begin, self._now()],
        ).fetchall()
        files = [f"/{number} " for number in self._files_of_artifacts()]
        artifacts = rest = 0
        for reference, size in rows:
            if any(file in (reference or "") for file in files):
                artifacts += size
            else:
                rest += size
        return artifacts, rest

    def _now(self) -> str:
        row = self._database.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        return str(row[0]) if row else ""

    def _files_of_artifacts(self) -> list[int]:
        """Return the numbers of PostgreSQL's files that store artifacts. They are the files of the
        tables, of the TOAST tables with long values, and of all indexes."""
        rows = self._database.execute(
            "WITH held AS (SELECT unnest(ARRAY[oid, reltoastrelid]) AS oid FROM pg_class "
            "WHERE relname = ANY(%s)) SELECT pg_relation_filenode(oid) FROM held UNION "
            "SELECT pg_relation_filenode(indexrelid) FROM pg_index "
            "JOIN held ON indrelid = held.oid",
            [list(ARTIFACTS)],
        ).fetchall()
        return [row[0] for row in rows]
