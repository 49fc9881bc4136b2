"""A JSON client that measures times. It opens the connection of each call before it starts the
clock."""

import http.client
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit


class RunError(Exception):
    """An error after which the run cannot go on."""


@dataclass(frozen=True)
class Server:
    """The address of a server on loopback. `prefix` is the beginning of all its paths."""

    host: str
    port: int
    prefix: str = ""

    @classmethod
    def at(cls, url: str) -> "Server":
        parts = urlsplit(url)
        return cls(parts.hostname or "127.0.0.1", parts.port or 80, parts.path.rstrip("/"))


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    seconds: float

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class StreamEvent:
    """A server-sent event. `seconds` is the time from the sending of the request to the event."""

    name: str
    data: str
    seconds: float


@dataclass
class _LineParser:
    name: str = "message"
    data: list[str] = field(default_factory=list)

    def feed(self, line: str, seconds: float) -> StreamEvent | None:
        if line:
            key, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if key == "event":
                self.name = value
            elif key == "data":
                self.data.append(value)
            return None
        event = StreamEvent(self.name, "\n".join(self.data), seconds) if self.data else None
        self.name, self.data = "message", []
        return event


def call(
    server: Server,
    method: str,
    path: str,
    body: Any = None,
    *,
    headers: dict[str, str] | None = None,
    timeout: float = 60.0,
) -> Answer:
    """Send one request, and return the answer.

    Raise OSError or http.client.HTTPException if there is no answer.
    """
    connection = http.client.HTTPConnection(server.host, server.port, timeout=timeout)
    try:
        connection.connect()
        started = time.perf_counter()
        _send(connection, server, method, path, body, headers)
        response = connection.getresponse()
        content = response.read()
        return Answer(response.status, content, time.perf_counter() - started)
    finally:
        connection.close()


def expect(status: int, answer: Answer) -> Any:
    """Return the JSON of the answer. Raise RunError if the answer has another status."""
    if answer.status != status:
        raise RunError(f"Expected {status}: {answer.status} {answer.body[:500]!r}")
    return answer.json()


def stream(
    server: Server,
    path: str,
    body: Any = None,
    *,
    method: str = "POST",
    headers: dict[str, str] | None = None,
    timeout: float = 60.0,
) -> Iterator[StreamEvent]:
    """Yield the events of the answer. Raise RunError if the answer is no stream of events."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=timeout)
    try:
        connection.connect()
        started = time.perf_counter()
        accept = {"Accept": "text/event-stream", **(headers or {})}
        _send(connection, server, method, path, body, accept)
        response = connection.getresponse()
        kind = response.getheader("Content-Type", "")
        if response.status != 200 or not kind.startswith("text/event-stream"):
            raise RunError(f"{method} {path}: {response.status} {kind} {response.read()[:500]!r}")
        parser = _LineParser()
        while line := response.readline():
            seconds = time.perf_counter() - started
            if event := parser.feed(line.decode().rstrip("\r\n"), seconds):
                yield event
    finally:
        connection.close()


def _send(
    connection: http.client.HTTPConnection,
    server: Server,
    method: str,
    path: str,
    body: Any,
    headers: dict[str, str] | None,
) -> None:
    content = None if body is None else json.dumps(body).encode()
    kind = {} if body is None else {"Content-Type": "application/json"}
    connection.request(method, server.prefix + path, content, {**kind, **(headers or {})})
