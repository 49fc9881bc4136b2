"""Limits the number of open connections, and the time that clients may take to send a request and
to read an answer.

By itself, uvicorn waits without limit for the head of a request. So a few hundred connections that
never send a whole head would use up all files that a process may open, and every new connection
would be reset. uvicorn also waits without limit for a client that does not read its answer.
"""

import asyncio
import logging
import resource
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from sessions.log_lines import warn

logger = logging.getLogger(__name__)

# The head of a request must come within this time. The time begins with the connection, or with the
# first byte after an answer.
HEAD_SECONDS = 15.0
# The limit in bytes of a request's head. Real heads are much smaller, even with cookies and a long
# address. The limit also applies to the bytes between and after the parts of a body.
LARGEST_HEAD = 32_000
MOST_HEADERS = 100
# A connection is closed if its client reads no byte of a waiting answer for this many seconds.
UNREAD_SECONDS = 60.0
# The size of the system's buffer for an answer, in bytes (Linux doubles this number). By default
# the buffer has megabytes. A slow client could read from such a buffer for minutes, and this
# process would believe that the client reads nothing.
_TAKEN_AHEAD = 128_000

# One process has at most this many connections. The process could not serve more of them at a time.
_MOST_CONNECTIONS = 1_000
_WANTED_FILES = 4_096
_SECONDS_BETWEEN_LINES = 60.0


def raise_file_limit() -> int:
    """Raise the limit on open files as far as the process needs and may. Return the number of files
    that it can open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = _WANTED_FILES if hard == unlimited else min(hard, _WANTED_FILES)
    if soft != unlimited and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return _WANTED_FILES if soft == unlimited else soft


@dataclass
class Connections:
    """The open connections, at most `most`. The process also needs files for other things.

    If a new connection exceeds this limit, an older connection is closed. It is the connection that
    has waited longest without sending a whole request. If no connection waits, it is the connection
    that has left its answer unread for longest.
    """

    most: int
    # The connections that have not sent a whole request. The one that has waited longest comes
    # first.
    _waiting: "dict[BoundedProtocol, None]" = field(default_factory=dict)
    _busy: "set[BoundedProtocol]" = field(default_factory=set)
    # The connections that do not read their answers. The one that stopped reading first comes
    # first.
    _unread: "dict[BoundedProtocol, None]" = field(default_factory=dict)
    _closed: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("too_many", "too_slow", "unread"), 0)
    )
    _next_line: float = 0.0

    @classmethod
    def for_files(cls, files: int) -> "Connections":
        return cls(min(_MOST_CONNECTIONS, files // 2))

    def __len__(self) -> int:
        return len(self._waiting) + len(self._busy)

    def join(self, connection: "BoundedProtocol") -> None:
        """Add a new connection, which has not sent a whole request yet."""
        longest = next(iter(self._waiting), None) or next(iter(self._unread), None)
        self._waiting[connection] = None
        # If `longest` is None, every other connection is being answered and its client reads the
        # answer. So no connection can be closed, and uvicorn refuses the new connection with 503.
        if len(self) > self.most and longest is not None:
            self.close(longest, "too_many")

    @property
    def unread(self) -> int:
        """The number of connections whose client does not read the answer."""
        return len(self._unread)

    def wait(self, connection: "BoundedProtocol") -> None:
        """Note that a connection has got its answer, and that the next request is awaited."""
        if connection in self._busy:
            self.leave(connection)
            self._waiting[connection] = None

    def work(self, connection: "BoundedProtocol") -> None:
        """Note that a connection has sent a whole request."""
        if connection in self._waiting:
            del self._waiting[connection]
            self._busy.add(connection)

    def stop_reading(self, connection: "BoundedProtocol") -> None:
        if connection in self._busy:
            self._unread[connection] = None

    def read_on(self, connection: "BoundedProtocol") -> None:
        self._unread.pop(connection, None)

    def leave(self, connection: "BoundedProtocol") -> None:
        self._waiting.pop(connection, None)
        self._busy.discard(connection)
        self._unread.pop(connection, None)

    def close(self, connection: "BoundedProtocol", reason: str) -> None:
        self.leave(connection)
        connection.transport.abort()
        # uvicorn itself would remove this connection from its set a moment later. Until that
        # moment, uvicorn would refuse a new connection with 503.
        connection.connections.discard(connection)
        self._closed[reason] += 1
        now = asyncio.get_running_loop().time()
        if now < self._next_line:
            # Closed connections are counted and logged together, because a log line for each of
            # them could fill the disk.
            return
        warn(logger, "connections closed", open=len(self), **self._closed)
        self._next_line = now + _SECONDS_BETWEEN_LINES
        self._closed = dict.fromkeys(self._closed, 0)


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with three limits: the size of a request's head, the wait for the head,
    and the wait for a client that does not read its answer."""

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._others = connections
        self._deadline: asyncio.TimerHandle | None = None
        # The number of bytes since the end of the last head, or since the last part of a body.
        self._head_size = 0
        self._reading_deadline: asyncio.TimerHandle | None = None
        # The number of bytes that were still unsent when `_reading_deadline` was set.
        self._unsent = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connected: socket.socket = transport.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _TAKEN_AHEAD)
        self._expect_head()
        self._others.join(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._others.leave(self)
        self._stop_expecting_head()
        self._stop_expecting_reader()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_idle():
            self._expect_head()
        self._head_size += len(data)
        super().data_received(data)
        if self._head_size > LARGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MOST_HEADERS:
            # The parser catches this error, and uvicorn answers 400.
            raise ValueError
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_size = 0
        self._stop_expecting_head()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head_size = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_size = 0
        super().on_message_complete()
        if not self._is_idle():
            self._others.work(self)

    def on_response_complete(self) -> None:
        has_another = bool(self.pipeline)
        super().on_response_complete()
        if not has_another:
            self._others.wait(self)
            # The client may not have read the end of the answer yet. uvicorn does not notice a
            # client that never reads it, and would keep the connection open.
            self._expect_reader()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._others.stop_reading(self)
        self._expect_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._others.read_on(self)

    def _is_idle(self) -> bool:
        """Return whether the server is answering no request of this connection at the moment."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _expect_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._end_late_head)

    def _stop_expecting_head(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end_late_head(self) -> None:
        if self._head_size:
            self._others.close(self, "too_slow")
        else:
            # Browsers open spare connections and send nothing over them. Such a connection is
            # closed without a log line.
            self.transport.abort()

    def _expect_reader(self) -> None:
        self._stop_expecting_reader()
        self._unsent = self.transport.get_write_buffer_size()
        self._reading_deadline = self.loop.call_later(UNREAD_SECONDS, self._look_for_reader)

    def _stop_expecting_reader(self) -> None:
        if self._reading_deadline is not None:
            self._reading_deadline.cancel()
            self._reading_deadline = None

    def _look_for_reader(self) -> None:
        self._reading_deadline = None
        unsent = self.transport.get_write_buffer_size()
        # A connection is kept open if its client has read everything. It is also kept open if the
        # answer is still being written and the client keeps up with it.
        is_over = not unsent or not (self.flow.write_paused or self._is_idle())
        if is_over:
            return
        if unsent < self._unsent:
            self._expect_reader()
        else:
            self._others.close(self, "unread")
