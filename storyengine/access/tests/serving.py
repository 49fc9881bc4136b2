"""A server in the test's process, and clients that visit this server. The server has the limits on
connections that the command `serve` sets."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from threading import Event, Thread
from typing import Any, cast

import uvicorn

from storyengine.access.connections import BoundedProtocol, Connections

HALF = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
WHOLE = HALF + b"\r\n"
STREAM = WHOLE.replace(b"/ ", b"/stream ")
# The timeout of each socket, in seconds. Every answer arrives far sooner.
PATIENCE = 30.0
_PIECE = 100_000


def whole_for(size: int) -> bytes:
    """Return a request whose answer has more than `size` bytes."""
    return WHOLE.replace(b"/ ", b"/of/%d " % size)


class Served:
    """A running server. Its page /stream goes on until the test sets `may_end`."""

    def __init__(self, most: int) -> None:
        self.may_end, self.is_streaming = Event(), Event()
        self.connections = Connections(most)
        listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = listener.getsockname()[1]
        config = uvicorn.Config(
            self._answer,
            http=cast(Any, partial(BoundedProtocol, self.connections)),
            limit_concurrency=most + 1,
            interface="asgi3",
            lifespan="off",
            log_config=None,
        )
        self.server = uvicorn.Server(config)
        self.thread = Thread(target=self.server.run, args=([listener],))

    @property
    def is_at_work(self) -> bool:
        return bool(self.server.server_state.tasks)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        page, _, size = scope["path"].partition("/of/")
        left = int(size or 0)
        while left:
            piece = b"x" * min(left, _PIECE)
            left -= len(piece)
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if page == "/stream":
            self.is_streaming.set()
            await send({"type": "http.response.body", "body": b"waiting", "more_body": True})
            await asyncio.to_thread(self.may_end.wait, PATIENCE)
        await send({"type": "http.response.body", "body": b"ended"})


class Visitors:
    def __init__(self, port: int, stack: ExitStack) -> None:
        self.port, self._stack = port, stack

    def send(self, *parts: bytes) -> socket.socket:
        visitor = socket.socket()
        self._stack.callback(visitor.close)
        visitor.settimeout(PATIENCE)
        # The receive buffer is small, so that an answer which the visitor does not read cannot fit
        # into it.
        visitor.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        visitor.connect(("127.0.0.1", self.port))
        for part in parts:
            visitor.sendall(part)
        return visitor


Serve = Callable[..., tuple[Served, Visitors]]


def is_answered(visitor: socket.socket) -> bool:
    return b"ended" in read_until(visitor, b"ended")


def read_until(visitor: socket.socket, end: bytes = b"\0") -> bytes:
    """Return the bytes that the visitor receives, up to the bytes `end` or to the close of the
    connection."""
    read = b""
    while end not in read:
        try:
            part = visitor.recv(65_536)
        except ConnectionResetError:
            break
        if not part:
            break
        read += part
    return read
