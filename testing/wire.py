"""The parts of HTTP/1.1 that a small model server needs."""

import asyncio
import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

MAX_BODY_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    body: bytes


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """Return the next request. Return None if the connection has ended or the data is no
    request."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _version = first.split(" ", 2)
        fields = dict(line.lower().split(":", 1) for line in lines if ":" in line)
        size = int(fields.get("content-length", "0"))
        if not 0 <= size <= MAX_BODY_BYTES:
            return None
        body = await reader.readexactly(size)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        return None
    return Request(method, target.partition("?")[0], body)


async def send_json(
    writer: asyncio.StreamWriter, value: Any, *, status: int = 200, headers: str = ""
) -> None:
    await send_bytes(writer, json.dumps(value).encode(), "application/json", status, headers)


async def send_bytes(
    writer: asyncio.StreamWriter, body: bytes, kind: str, status: int = 200, headers: str = ""
) -> None:
    """Send a response. `headers` are further lines of its head, each with CRLF at its end."""
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\n{headers}\r\n"
    )
    writer.write(head.encode("latin-1") + body)
    await writer.drain()


class EventStream:
    """A response of server-sent events, in chunked encoding."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def open(self) -> None:
        self._writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Cache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        await self._writer.drain()

    async def send(self, data: str) -> None:
        event = f"data: {data}\n\n".encode()
        self._writer.write(b"%x\r\n%s\r\n" % (len(event), event))
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()
