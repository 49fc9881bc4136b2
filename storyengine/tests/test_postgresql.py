"""A restart of PostgreSQL leaves a pool of dead connections, and costs nobody a request."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from storyengine.postgresql.base import is_dead

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no connections"),
]

# psycopg's own check throws away one at a time, each after twice the pause: too many for a request.
CONNECTIONS = 8
# Each within five seconds.
END_ALL = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
    "WHERE pid <> pg_backend_pid() AND datname = current_database()"
)


def ask(everybody: Barrier | None = None) -> int:
    """A request's work in a thread of its own; with `everybody` all hold connections at once."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            process_id: int = cursor.fetchone()[0]
        if everybody is not None:
            everybody.wait(30)
        return process_id
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
    # One alone meets them all; then many at once.
    assert threads.submit(ask).result() not in before
    assert not before & set(threads.map(ask, [None] * 3 * CONNECTIONS))


def test_a_connection_that_was_only_told_something_is_kept(threads: ThreadPoolExecutor) -> None:
    with connection.cursor() as cursor:
        cursor.execute("LISTEN lamps")
        own = connection.connection
        threads.submit(notify).result()
        assert not is_dead(own)
        cursor.execute("UNLISTEN lamps")
        assert not is_dead(own)


def notify() -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("NOTIFY lamps")
    finally:
        connection.close()
