"""Tests of the threads in which streaming code queries the database."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import OperationalError

from agents.running import database
from agents.running.database import in_database, open_connection


class Opened:
    """A stand-in for the database connection of a thread.

    The connection opens if `error` is None, and otherwise fails with this error.
    """

    connection = None

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.by: list[int] = []

    def ensure_connection(self) -> None:
        self.by.append(threading.get_ident())
        if self.error is not None:
            raise self.error


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> ThreadPoolExecutor:
    pool = ThreadPoolExecutor(database._THREADS)
    monkeypatch.setattr(database, "database_threads", pool)
    return pool


@pytest.mark.parametrize("error", [None, OperationalError("away")])
def test_a_connection_is_opened_ahead(
    threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    opened = Opened(error)
    monkeypatch.setattr(database, "connection", opened)
    with threads:
        asyncio.run(open_connection())
    assert len(opened.by) == 1
    assert opened.by != [threading.get_ident()]


def test_a_database_that_hangs_at_the_start_leaves_a_thread_to_say_so(
    threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    opened = Opened(None)
    monkeypatch.setattr(opened, "ensure_connection", lambda: answers.wait(60))
    monkeypatch.setattr(database, "connection", opened)

    async def start_and_ask() -> str:
        opening = asyncio.create_task(open_connection())
        # As at the start of the program, the task that opens the connection begins before any other
        # task. It occupies its thread during this pause.
        await asyncio.sleep(0)
        try:
            return await asyncio.wait_for(in_database(lambda: "told"), 30)
        finally:
            answers.set()
            await opening

    with threads:
        assert asyncio.run(start_and_ask()) == "told"
