"""Runs the database queries of streaming code in threads."""

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

from sessions.storage import describe, is_disk_full

logger = logging.getLogger(__name__)

# The seconds between the tries to store a model's text. All tries are made before the lease of an
# attempt can run out.
PAUSES = (0.2, 1.0, 3.0)
# The seconds between two tries while the disk is full. The number of tries has no limit.
FULL_PAUSE_SECONDS = 1.0

P = ParamSpec("P")
R = TypeVar("R")

# The number of threads. On SQLite more threads would not help, because SQLite has one writer at a
# time. With a database server on the same machine, more threads were slower, because each thread
# has a connection of its own, which has to fill its own caches.
_THREADS = 2
# The threads for the work of replies. The thread of a request ends with the request, together with
# its connection, but a reply continues, so it needs other threads. If this is None, the work runs
# in the caller's thread, where a test has its transaction open.
database_threads: ThreadPoolExecutor | None = ThreadPoolExecutor(
    _THREADS, thread_name_prefix="database"
)
# The thread for work that visitors who are not signed in can cause. Replies do not wait for it.
_thread_of_strangers = ThreadPoolExecutor(1, thread_name_prefix="strangers")


async def in_database(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run `work` in a thread where the ORM may be used."""
    return await _run_in(database_threads, work, *args, **kwargs)


async def in_database_for_strangers(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run work that visitors who are not signed in can cause often, without delaying other work."""
    threads = None if database_threads is None else _thread_of_strangers
    return await _run_in(threads, work, *args, **kwargs)


async def _run_in(
    threads: ThreadPoolExecutor | None, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    if threads is None:
        return await sync_to_async(work)(*args, **kwargs)
    # The work runs in a copy of the caller's context, which has the ids for log lines.
    context = copy_context()

    def run() -> R:
        # The connection is kept open as long as its thread lives, because opening a connection, or
        # taking one from a pool, takes longer than most pieces of work. If the database server has
        # closed the connection, it is closed here too, and the next query opens a new one.
        if connection.connection is not None and not connection.is_usable():
            connection.close()
        return context.run(work, *args, **kwargs)

    return await asyncio.get_running_loop().run_in_executor(threads, run)


async def open_connection() -> None:
    """Open the connection of one thread early, so that no GM has to wait for this.

    Only one of the threads opens its connection here. If the database hangs, the other thread can
    still serve a request and report that the database hangs.
    """
    if database_threads is None:
        return

    def connect() -> None:
        # The connection is opened in the thread that will use it, because each thread has its own.
        connection.ensure_connection()

    with suppress(DatabaseError):
        await in_database(connect)


async def in_database_patiently(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run work that stores an answer of a model. If the database cannot be reached for a moment, or
    if the disk is full, try again, because the answer was paid for."""
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
