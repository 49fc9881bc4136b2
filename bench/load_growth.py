"""Measures how much a turn adds to the database. The size is read before and after 200 turns."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import psycopg

from bench.figure import Figure
from bench.load_bytes import CHUNK, play_turn, wait_until_quiet
from bench.load_stack import LoadStack

TURNS = 200
MOST_POSTGRES, MOST_SQLITE = 12_000, 15_000
# How many of the largest tables are shown.
_SHOWN = 4


def measure_growth(stack: LoadStack, *, turns: int) -> list[Figure]:
    stack.set_pace(100_000, first_token_ms=1)
    session_id = stack.build("turns", 0)
    # Without these earlier turns, the first pages of each table would be counted as part of the
    # turns.
    _play(stack, session_id, 1, CHUNK)
    before = _sizes(stack)
    _play(stack, session_id, CHUNK + 1, CHUNK + turns)
    after = _sizes(stack)
    added = {table: (size - before.get(table, 0)) / turns for table, size in after.items()}
    return [size_figure(added, MOST_POSTGRES if stack.has_servers else MOST_SQLITE, turns)]


def _play(stack: LoadStack, session_id: str, first: int, last: int) -> None:
    for turn in range(first, last + 1):
        play_turn(stack, session_id, turn)
        if turn % CHUNK == 0:
            wait_until_quiet(stack, session_id)


def size_figure(added: Mapping[str, float], most: int, turns: int) -> Figure:
    """Return the figure. `added` has the bytes that a turn adds to each table and its indexes."""
    total = sum(added.values())
    largest = sorted(added.items(), key=lambda one: -one[1])[:_SHOWN]
    shown = ", ".join(f"{table} {size / 1e3:.1f}" for table, size in largest)
    return Figure(
        f"Bytes that each of {turns} turns adds to the database",
        total,
        f"{total / 1e3:.1f} KB ({shown})",
        f"at most {most // 1000} KB",
        total <= most,
    )


def _sizes(stack: LoadStack) -> dict[str, int]:
    """Return the bytes on the disk of each table, with its indexes and its long values."""
    environment = stack.processes.environment
    if stack.has_servers:
        with psycopg.connect(environment["DATABASE_URL"], autocommit=True) as server:
            return dict(
                server.execute(
                    "SELECT relname, pg_total_relation_size(oid) FROM pg_class "
                    "WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
                ).fetchall()
            )
    path = Path(environment["STORYENGINE_DATA"]) / "storyengine.sqlite3"
    with closing(sqlite3.connect(path, timeout=20)) as database:
        return dict(
            database.execute(
                "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_schema USING (name) "
                "GROUP BY tbl_name"
            ).fetchall()
        )
