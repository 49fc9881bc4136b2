"""A small HTTP server for chat calls. Tests write its answers, which may be malformed."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

Answer = Callable[["Exchange"], Awaitable[None]]

STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)


@dataclass
class Exchange:
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    writer: asyncio.StreamWriter
    connection: int
    is_left: asyncio.Event

    async def send_raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send_event(self, data: str) -> None:
        payload = f"data: {data}\n\n".encode()
        await self.send_raw(b"%x\r\n%s\r\n" % (len(payload), payload))

    async def send_chunk(self, *, choices: object = (), **fields: object) -> None:
        base = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        await self.send_event(json.dumps({**base, "choices": choices, **fields}))

    async def send_text(self, text: str, **delta: object) -> None:
        delta = {"content": text, **delta}
        await self.send_chunk(choices=[{"index": 0, "delta": delta, "finish_reason": None}])

    async def send_finish(self, reason: str = "stop") -> None:
        await self.send_chunk(choices=[{"index": 0, "delta": {}, "finish_reason": reason}])

    async def send_end(self) -> None:
        await self.send_event("[DONE]")
        await self.send_raw(b"0\r\n\r\n")


@dataclass
class ChatServer:
    """A server that gives the queued answers in order and stores the requests."""

    answers: deque[Answer]
    exchanges: list[Exchange] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    # The event is set when a client closes the connection before the end of an answer.
    is_left: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [exchange.body for exchange in self.exchanges]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while (request := await _read_request(reader)) is not None:
                exchange = Exchange(*request, writer, number, self.is_left)
                self.exchanges.append(exchange)
                answering = asyncio.ensure_future(self.answers.popleft()(exchange))
                leaving = asyncio.ensure_future(reader.read(1))
                await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if not answering.done():
                    self.is_left.set()
                    answering.cancel()
                    break
                leaving.cancel()
                await asyncio.wait({leaving})
        writer.close()


@asynccontextmanager
async def chat_server(*answers: Answer) -> AsyncIterator[ChatServer]:
    double = ChatServer(deque(answers))
    server = await asyncio.start_server(double.serve, "127.0.0.1", 0)
    double.port = server.sockets[0].getsockname()[1]
    try:
        yield double
    finally:
        server.close()


def says(*texts: str, reason: str = "stop", usage: object = None) -> Answer:
    """Make a well-formed streamed reply."""

    async def answer(exchange: Exchange) -> None:
        await exchange.send_raw(STREAM_HEAD)
        for text in texts:
            await exchange.send_text(text)
        await exchange.send_finish(reason)
        if usage is not None:
            await exchange.send_chunk(usage=usage)
        await exchange.send_end()

    return answer


def calls_tools(*fragments: object, text: str = "", reason: str = "tool_calls") -> Answer:
    """Make a streamed reply with this text and these fragments of tool calls.

    Each fragment is sent in its own chunk.
    """

    async def answer(exchange: Exchange) -> None:
        await exchange.send_raw(STREAM_HEAD)
        if text:
            await exchange.send_text(text)
        for fragment in fragments:
            await exchange.send_text("", content=None, tool_calls=[fragment])
        await exchange.send_finish(reason)
        await exchange.send_end()

    return answer


def says_at_once(
    text: object, reason: str | None = "stop", *, usage: object = None, **message: object
) -> Answer:
    """Make a well-formed reply to a call that did not ask for a stream."""
    message = {"role": "assistant", "content": text, **message}
    choices = [{"index": 0, "message": message, "finish_reason": reason}]
    base = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
    return responds(200, {**base, "choices": choices, "usage": usage})


def streams(*events: str) -> Answer:
    """Make a stream of these events with a well-formed end. The events may be malformed."""

    async def answer(exchange: Exchange) -> None:
        await exchange.send_raw(STREAM_HEAD)
        for event in events:
            await exchange.send_event(event)
        await exchange.send_raw(b"0\r\n\r\n")

    return answer


def responds(status: int, body: object = "", *, headers: Mapping[str, str] | None = None) -> Answer:
    """Make a response that is not streamed.

    A body that is not a string is sent as JSON.
    """

    async def answer(exchange: Exchange) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        kind = "text/html" if isinstance(body, str) else "application/json"
        lines = {"Content-Type": kind, "Content-Length": str(len(data)), **(headers or {})}
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        await exchange.send_raw(head.encode() + b"\r\n" + data)

    return answer


def refuses(status: int, message: str = "", **fields: object) -> Answer:
    return responds(status, {"error": {"message": message, **fields}})


def hangs_up(*texts: str) -> Answer:
    """Make an answer that sends these texts and then closes the connection without an end."""

    async def answer(exchange: Exchange) -> None:
        if texts:
            await exchange.send_raw(STREAM_HEAD)
        for text in texts:
            await exchange.send_text(text)
        exchange.writer.transport.abort()

    return answer


def falls_silent(*texts: str) -> Answer:
    """Make an answer that sends these texts and then nothing, until the client closes the
    connection."""

    async def answer(exchange: Exchange) -> None:
        if texts:
            await exchange.send_raw(STREAM_HEAD)
        for text in texts:
            await exchange.send_text(text)
        await exchange.is_left.wait()

    return answer


async def _read_request(
    reader: asyncio.StreamReader,
) -> tuple[str, dict[str, str], dict[str, Any]] | None:
    line = await reader.readline()
    if not line:
        return None
    headers: dict[str, str] = {}
    while header := (await reader.readline()).decode().strip():
        name, _, value = header.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return line.decode().split(" ")[1], headers, json.loads(body)
