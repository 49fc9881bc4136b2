"""Bounds on the heads of an answer, which are its status lines and header lines.

An answer may have any number of heads with a status of 1xx before its own head. The library bounds
each head, but not all heads together.
"""

import ssl
from collections.abc import Iterable
from typing import Any

import httpcore2
import httpx2
from httpcore2 import SOCKET_OPTION

from agents.llm.providers.bounds import TooMuch

# The limits of all heads of an answer together, in bytes and in lines.
MOST_BYTES = 96_000
MOST_LINES = 2_000
# At most this many bytes are read at once while heads arrive, so that the bounds are exceeded by no
# more than this.
_PIECE = 4_096


def bound_heads(client: httpx2.AsyncClient) -> None:
    """Let the client raise TooMuch, or an error that TooMuch has caused, if an answer's heads
    exceed the bounds."""
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx2.AsyncHTTPTransport):
            # The client has no option for this, and builds the transports for proxies itself.
            pool = transport._pool
            pool._network_backend = _BoundedNetwork(pool._network_backend)
    client.event_hooks["response"].append(_end_heads)


async def _end_heads(response: httpx2.Response) -> None:
    stream = response.extensions.get("network_stream")
    if isinstance(stream, _BoundedStream):
        stream.has_heads = False


class _BoundedNetwork(httpcore2.AsyncNetworkBackend):
    def __init__(self, network: httpcore2.AsyncNetworkBackend) -> None:
        self._network = network

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return _BoundedStream(
            await self._network.connect_tcp(host, port, timeout, local_address, socket_options)
        )

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


class _BoundedStream(httpcore2.AsyncNetworkStream):
    """A connection that counts the bytes and lines that it reads between a request and the body of
    the answer."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        # True until the answer's own head has been read.
        self.has_heads = True
        self._bytes = self._lines = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if not self.has_heads:
            return await self._stream.read(max_bytes, timeout)
        # The bounds are checked before more is read, because the latest piece may have a part of
        # the body.
        if self._bytes > MOST_BYTES or self._lines > MOST_LINES:
            raise TooMuch
        piece = await self._stream.read(min(max_bytes, _PIECE), timeout)
        self._bytes += len(piece)
        self._lines += piece.count(b"\n")
        return piece

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # A request begins, and so the heads of its answer will follow.
        self.has_heads, self._bytes, self._lines = True, 0, 0
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return _BoundedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
