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

from agents.flows.replies.turns import end_replies
from agents.running.database import open_connection
from storyengine.access.connections import BoundedProtocol, Connections, raise_file_limit
from storyengine.access.listening import CannotListen, describe_address, open_listeners
from storyengine.operations.heartbeat import start_web_heartbeat

SECONDS_FOR_OPEN_REQUESTS = 2
# The seconds that a stopping server spends on storing the text of interrupted replies.
SECONDS_FOR_LAST_WORDS = 2
# A Python thread keeps the processor for at most this many seconds while another thread waits for
# it.
SECONDS_OF_A_TURN = 0.000_5


class AnnouncedServer(uvicorn.Server):
    """A server that announces its address once it can answer."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self.announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # The URLs are imported before the first request, which would otherwise wait for the import.
        import_module(settings.ROOT_URLCONF)
        # All objects that exist now live as long as the process. After `freeze`, the garbage
        # collector no longer searches these objects.
        gc.collect()
        gc.freeze()
        # The event loop, which sends all replies, shares the processor with threads that ask the
        # database. Python lets a thread run for 5 ms by default. With a hundred replies at once, a
        # new reply would then wait 0.2 seconds.
        sys.setswitchinterval(SECONDS_OF_A_TURN)
        await super().startup(sockets=sockets)
        # The server already answers while this task opens the database connection. The task is
        # stored in an attribute, because a task without a reference may be garbage-collected.
        self._connecting = asyncio.create_task(open_connection())
        self._heartbeat = start_web_heartbeat()
        self.announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # `end_replies` ends the running replies, and with them the streams that clients read. It
        # runs during uvicorn's shutdown, because a signal ends the process right after the
        # shutdown.
        await asyncio.gather(super().shutdown(sockets=sockets), end_replies(SECONDS_FOR_LAST_WORDS))
        if self._heartbeat is not None:
            await asyncio.to_thread(self._heartbeat.end)


class Command(BaseCommand):
    help = (
        "Serve pages and API: on STORYENGINE_HOST, without it on loopback, or on all addresses if "
        "a password of 12 characters or more is set."
    )
    # `prepare` has run the checks already, for all processes.
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
            # The value "auto" chooses uvloop if it is installed. uvloop is faster than asyncio's
            # own loop.
            loop="auto",
            http=cast(Any, partial(BoundedProtocol, connections)),
            # uvicorn refuses connections above this limit. This happens only if `connections` could
            # close no other connection.
            limit_concurrency=connections.most + 1,
            # At most this many connections may wait to be accepted.
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
