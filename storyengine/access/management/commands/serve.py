import asyncio
import gc
import socket
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, cast

import uvicorn
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from agents.flows.replies import end_replies
from agents.running.database import open_connection
from storyengine.access.connections import BoundedProtocol, Connections, raise_file_limit
from storyengine.access.listening import CannotListen, describe_address, open_listeners

SECONDS_FOR_OPEN_REQUESTS = 2
# To store what replies that are broken off have come to.
SECONDS_FOR_LAST_WORDS = 2
# Of a thread, before another that waits may go on.
SECONDS_OF_A_TURN = 0.000_5


class AnnouncedServer(uvicorn.Server):
    """Says that it serves when it does, and not before."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self.announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # Which the first page would wait for.
        import_module(settings.ROOT_URLCONF)
        # All of this lasts as long as the process: looking through it for what is no longer used
        # would take long, now and then, and find nothing.
        gc.collect()
        gc.freeze()
        # Threads that ask the database take turns with the loop that sends on all replies. Of the
        # usual 5 ms each, with a hundred replies at once, a new one would wait a fifth of a second.
        sys.setswitchinterval(SECONDS_OF_A_TURN)
        await super().startup(sockets=sockets)
        # Beside what is asked already; kept, because the loop itself keeps no task alive.
        self._connecting = asyncio.create_task(open_connection())
        self.announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # With the replies the streams end that follow them, which else would be cut off. At once,
        # because the process then ends by the signal that it got, before the loop could end them.
        await asyncio.gather(super().shutdown(sockets=sockets), end_replies(SECONDS_FOR_LAST_WORDS))


class Command(BaseCommand):
    help = (
        "Serve pages and API: on STORYENGINE_HOST, without it on loopback, or on all addresses if "
        "a password of 12 characters or more is set."
    )
    # `prepare` runs them, once for all processes.
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            listeners = open_listeners()
        except CannotListen as error:
            raise CommandError(str(error)) from error
        files = raise_file_limit()
        connections = Connections.for_files(files)
        config = uvicorn.Config(
            "storyengine.asgi:application",
            # The quick one where it is installed: a reply waits for it.
            loop="auto",
            http=cast(Any, partial(BoundedProtocol, connections)),
            # Beyond it, where nobody else waits whose connection could be closed.
            limit_concurrency=connections.most + 1,
            # So many more may be opened at once before the first of them is closed.
            backlog=min(files // 8, 2_048),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            proxy_headers=bool(settings.PROXIES),
            forwarded_allow_ips=settings.PROXIES,
            timeout_graceful_shutdown=SECONDS_FOR_OPEN_REQUESTS,
        )
        server = AnnouncedServer(config, self._announce)
        server.run(sockets=listeners)

    def _announce(self) -> None:
        self.stdout.write(f"Story Engine is at {describe_address()}. Ctrl-C stops it.")
        self.stdout.flush()
