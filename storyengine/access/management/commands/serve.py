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
# The seconds in which the words of interrupted replies can be stored.
SECONDS_FOR_LAST_WORDS = 2
# The most seconds for which a thread runs while another thread waits.
SECONDS_OF_A_TURN = 0.000_5


class AnnouncedServer(uvicorn.Server):
    """A server that announces its address only when it can answer."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self.announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # The URLs are imported here, because the first page would otherwise wait for the import.
        import_module(settings.ROOT_URLCONF)
        # All objects that exist now live as long as the process. Once they are frozen, the garbage
        # collector does not search them any more.
        gc.collect()
        gc.freeze()
        # Threads that ask the database share the processor with the event loop that sends all
        # replies. With the usual turns of 5 ms and a hundred replies at once, a new reply would
        # wait 0.2 seconds.
        sys.setswitchinterval(SECONDS_OF_A_TURN)
        await super().startup(sockets=sockets)
        # The connection is opened while requests are already served. The attribute keeps the task
        # alive.
        self._connecting = asyncio.create_task(open_connection())
        self.announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # When a reply ends, the streams that follow it end in order and are not cut off. The
        # replies end during uvicorn's shutdown, because a signal ends the process right after it.
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
            # This uses uvloop if it is installed, because uvloop is faster.
            loop="auto",
            http=cast(Any, partial(BoundedProtocol, connections)),
            # With this limit, uvicorn refuses a connection only if no other connection could be
            # closed instead.
            limit_concurrency=connections.most + 1,
            # The most connections that wait to be accepted at one time.
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
