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
# The time to store the words of replies that are interrupted.
SECONDS_FOR_LAST_WORDS = 2
# How long a thread may run before another that waits may go on.
SECONDS_OF_A_TURN = 0.000_5


class AnnouncedServer(uvicorn.Server):
    """A server that announces its address only once it serves."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self.announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # The first page would otherwise wait for this import.
        import_module(settings.ROOT_URLCONF)
        # All objects so far last as long as the process. Freezing them spares the garbage collector
        # from searching them in vain.
        gc.collect()
        gc.freeze()
        # Threads that ask the database take turns with the event loop that sends all replies. With
        # the usual 5 ms a turn and a hundred replies at once, a new reply would wait 0.2 seconds.
        sys.setswitchinterval(SECONDS_OF_A_TURN)
        await super().startup(sockets=sockets)
        # The connection opens while requests are served. The attribute keeps the task alive.
        self._connecting = asyncio.create_task(open_connection())
        self.announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # When a reply ends, the streams that follow it end in order and are not cut off. The
        # replies end during uvicorn's shutdown, because a signal ends the process after it.
        await asyncio.gather(super().shutdown(sockets=sockets), end_replies(SECONDS_FOR_LAST_WORDS))


class Command(BaseCommand):
    help = (
        "Serve pages and API: on STORYENGINE_HOST, without it on loopback, or on all addresses if "
        "a password of 12 characters or more is set."
    )
    # `prepare` runs the checks once for all processes.
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
            # This uses uvloop where it is installed, which is faster.
            loop="auto",
            http=cast(Any, partial(BoundedProtocol, connections)),
            # uvicorn refuses a connection only if no other could be closed for it.
            limit_concurrency=connections.most + 1,
            # The connections that may be opened at once before the first of them is closed.
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
