"""How streaming code reaches the database: in a thread, one short piece of work at a time."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import Error as DatabaseError
from django.db import connection

from agents.storage import describe, is_disk_full

logger = logging.getLogger(__name__)

# Seconds between the tries to store what a model wrote, all within a turn's lease.
PAUSES = (0.2, 1.0, 3.0)
# The same where the disk is full: until somebody has made room, however long that takes.
FULL_PAUSE_SECONDS = 1.0

P = ParamSpec("P")
R = TypeVar("R")

# SQLite has one writer at a time, and whoever waits for it naps, each time longer; beside it, one
# more may read. With a server on this machine more of them were slower too: work went round among
# them, each with a connection, and a process of the server, that had cooled down meanwhile.
_THREADS = 2
# Threads of their own: a request's thread, and its connection with it, ends with the request, while
# a reply goes on. None runs the work in the caller's thread, where a test's transaction is open.
database_threads: ThreadPoolExecutor | None = ThreadPoolExecutor(
    _THREADS, thread_name_prefix="database"
)
# What strangers cause, one after the other: nobody waits for it in the threads above.
_thread_of_strangers = ThreadPoolExecutor(1, thread_name_prefix="strangers")


async def in_database(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run `work` where the ORM may be used."""
    return await _run_in(database_threads, work, *args, **kwargs)


async def in_database_for_strangers(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The same for what anybody can cause as often as he likes: it keeps nobody else waiting."""
    threads = None if database_threads is None else _thread_of_strangers
    return await _run_in(threads, work, *args, **kwargs)


async def _run_in(
    threads: ThreadPoolExecutor | None, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    if threads is None:
        return await sync_to_async(work)(*args, **kwargs)
    # A thread has no context of its own, and lines of the log take their ids from it.
    context = copy_context()

    def run() -> R:
        # It stays open with the thread, because to open one, or to take it from a pool, takes
        # longer than most work done on it; the server may have ended it since.
        if connection.connection is not None and not connection.is_usable():
            connection.close()
        return context.run(work, *args, **kwargs)

    return await asyncio.get_running_loop().run_in_executor(threads, run)


async def open_connection() -> None:
    """In one of the threads, before a GM waits for it.

    When the database hangs, the other one tells those who ask for it.
    """
    if database_threads is None:
        return

    def connect() -> None:
        # Looked up here, because it is the thread's own.
        connection.ensure_connection()

    with suppress(DatabaseError):
        await in_database(connect)


async def in_database_patiently(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The same for what is paid for: a database that is away for a moment may not lose it, nor a
    disk that is full."""
    pauses = iter(PAUSES)
    while True:
        try:
            return await in_database(work, *args, **kwargs)
        except DatabaseError as error:
            pause = FULL_PAUSE_SECONDS if is_disk_full(error) else next(pauses, None)
            if pause is None:
                raise
            logger.warning("%s has to wait: %s", work.__name__, describe(error))
        await asyncio.sleep(pause)
