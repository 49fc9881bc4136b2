"""Connections to a model server on this machine that use asyncio directly.

The HTTP library's own connections use anyio, which takes a quarter of a busy event loop's time to
guard each read. This module replaces only them, and only for loopback, where there is neither TLS
nor a proxy and where the program's own time matters. The library still has the connection pool,
the protocol and the errors.
"""

import asyncio
import selectors
import ssl
from collections.abc import Callable, Iterable
from typing import Any, cast

import httpcore2
import httpx2

# The bytes that are kept unread before the server has to wait.
MOST_HELD = 64 * 1024
# The bytes that one read returns, because other tasks wait while they are processed.
MOST_AT_ONCE = 16 * 1024
# The library also prefers poll(), which has no limit on file numbers but is not on every system.
_Selector: Callable[[], selectors.BaseSelector] = getattr(
    selectors, "PollSelector", selectors.SelectSelector
)


class LoopbackStream(httpcore2.AsyncNetworkStream, asyncio.Protocol):
    """A connection with one reader.

    It does not use asyncio's StreamReader, which withholds data that arrived before a connection
    broke and cannot tell whether there is anything to read.
    """

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._held = bytearray()
        self._has_ended = False
        self._error: Exception | None = None
        self._is_paused = False
        self._news: asyncio.Future[None] | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return up to `max_bytes` of the data that has arrived; b"" at the end."""
        if self._held:
            # Other tasks run here even if a server never pauses.
            await asyncio.sleep(0)
        elif not self._has_ended:
            self._news = asyncio.get_running_loop().create_future()
            try:
                # Without a limit there is no timer, because the provider has one for a whole reply.
                await (self._news if timeout is None else asyncio.wait_for(self._news, timeout))
            except TimeoutError as error:
                raise httpcore2.ReadTimeout(error) from error
        if not self._held and self._error is not None:
            raise httpcore2.ReadError(self._error) from self._error
        data = bytes(self._held[: min(max_bytes, MOST_AT_ONCE)])
        del self._held[: len(data)]
        self._pause_or_resume()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if not buffer:
            return
        self._check_writable()
        self._transport.write(buffer)
        if not self._may_write.is_set():
            try:
                await asyncio.wait_for(self._may_write.wait(), timeout)
            except TimeoutError as error:
                raise httpcore2.WriteTimeout(error) from error
            self._check_writable()

    async def aclose(self) -> None:
        self._end(ConnectionAbortedError("The connection was closed on this side."))
        self._transport.abort()
        # The event loop closes the socket in its next round, so this waits for one round.
        await asyncio.sleep(0)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return self._is_readable()
        names = {"client_addr": "sockname", "server_addr": "peername"}
        return self._transport.get_extra_info(names.get(info, info))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # This is a cast, no assertion, because uvloop's transports are not subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        # A write ends only when the system has all its data, so that its time limit is meaningful.
        self._transport.set_write_buffer_limits(0)

    def data_received(self, data: bytes) -> None:
        self._held += data
        self._pause_or_resume()
        self._wake()

    def eof_received(self) -> None:
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def _end(self, error: Exception | None) -> None:
        if not self._has_ended:
            self._has_ended, self._error = True, error
        self._may_write.set()
        self._wake()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _pause_or_resume(self) -> None:
        is_full = len(self._held) > MOST_HELD
        if is_full and not self._is_paused:
            self._transport.pause_reading()
        elif self._is_paused and not is_full:
            self._transport.resume_reading()
        self._is_paused = is_full

    def _check_writable(self) -> None:
        if self._has_ended:
            raise httpcore2.WriteError(self._error or "The server has closed the connection.")

    def _is_readable(self) -> bool:
        """Return whether an idle connection is useless, as it is closed or has unexpected data."""
        if self._held or self._has_ended or self._transport.is_closing():
            return True
        # Data may have arrived that the event loop has not read yet.
        with _Selector() as selector:
            selector.register(self._transport.get_extra_info("socket"), selectors.EVENT_READ)
            return bool(selector.select(0))


class LoopbackBackend(httpcore2.AsyncNetworkBackend):
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> LoopbackStream:
        """Connect to the host; the library never sets a local address or options here."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                _, stream = await loop.create_connection(LoopbackStream, host, port)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(error) from error
        except (OSError, OverflowError) as error:
            # An impossible port raises OverflowError.
            raise httpcore2.ConnectError(error) from error
        return stream

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class LoopbackTransport(httpx2.AsyncHTTPTransport):
    """The library's transport with the connections of this module."""

    def __init__(self, limits: httpx2.Limits, tls: ssl.SSLContext) -> None:
        # The library's own __init__ is not called, because it accepts no other network backend.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=LoopbackBackend(),
        )
