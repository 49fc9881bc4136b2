"""Tests that requests succeed after a restart of PostgreSQL, although all connections in the pool
are dead."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import OperationalError, connection

from agents.running import database
from agents.running.database import in_database

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no connections"),
]

# The number of connections in the pool. psycopg's own check drops one dead connection at a time and
# waits twice as long each time. With this many dead connections a request would wait too long.
CONNECTIONS = 8
# This statement ends all other connections to the database, and waits up to five seconds for the
# end of each.
END_ALL = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
    "WHERE pid <> pg_backend_pid() AND datname = current_database()"
)


def ask(everybody: Barrier | None = None) -> int:
    """Use a connection as a request does, and return the id of the server process behind it.

    With `everybody`, keep the connection until all threads have one.
    """
    try:
        own = process_id()
        if everybody is not None:
            everybody.wait(30)
        return own
    finally:
        connection.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        yield threads


def test_dead_connections_cost_nobody_a_request(threads: ThreadPoolExecutor) -> None:
    everybody = Barrier(CONNECTIONS)
    before = set(threads.map(ask, [everybody] * CONNECTIONS))
    assert len(before) == CONNECTIONS
    with connection.cursor() as cursor:
        cursor.execute(END_ALL)
    # One request runs alone, and meets all dead connections. Then many requests run at the same
    # time.
    assert threads.submit(ask).result() not in before
    assert not before & set(threads.map(ask, [None] * 3 * CONNECTIONS))


def test_streaming_work_keeps_its_connection_and_replaces_a_dead_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ThreadPoolExecutor(1) as thread:
        monkeypatch.setattr(database, "database_threads", thread)

        async def work() -> tuple[int, int, int]:
            first, second = [await in_database(process_id) for _ in range(2)]
            await in_database(end_own)
            return first, second, await in_database(process_id)

        first, second, third = asyncio.run(work())
        thread.submit(lambda: connection.close()).result()
    assert first == second != third


def process_id() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        found: int = cursor.fetchone()[0]
        return found


def end_own() -> None:
    """End the connection of this thread on the server, as a restart of the server between two
    queries would."""
    with pytest.raises(OperationalError), connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
