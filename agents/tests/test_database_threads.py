"""The threads that streaming code asks the database in."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import OperationalError

from agents import database
from agents.database import open_connections


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> ThreadPoolExecutor:
    pool = ThreadPoolExecutor(database._THREADS)
    monkeypatch.setattr(database, "database_threads", pool)
    return pool


def test_every_thread_opens_its_connection_ahead(threads: ThreadPoolExecutor) -> None:
    begun: list[int] = []
    with threads:
        asyncio.run(open_connections(lambda: begun.append(threading.get_ident())))
    assert len(begun) == len(set(begun)) == database._THREADS


def test_a_database_that_is_away_at_the_start_stops_nothing(threads: ThreadPoolExecutor) -> None:
    tried: list[int] = []

    def fail() -> None:
        tried.append(threading.get_ident())
        raise OperationalError("away")

    with threads:
        asyncio.run(open_connections(fail))
    assert len(tried) == database._THREADS
