"""How streaming code reaches the database: in a thread, one short piece of work at a time."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connection

P = ParamSpec("P")
R = TypeVar("R")


async def in_database(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run `work` where the ORM may be used.

    Replies outlive the request that started them, so nobody else closes their connections.
    """

    def run() -> R:
        try:
            return work(*args, **kwargs)
        finally:
            # Not under a caller that waits for this with a transaction open.
            if not connection.in_atomic_block:
                close_old_connections()

    return await sync_to_async(run)()
