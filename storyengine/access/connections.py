"""Limits the number of open connections, and the times for sending a request and reading an answer.

uvicorn waits without limit for the head of a request. A few hundred connections that never send a
whole head would use up all files that a process may open, and every new connection would be reset.
uvicorn also waits without limit until a client has read its answer.
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

# The longest time for the head of a request. It begins with the connection, or with the first byte
# after an answer.
HEAD_SECONDS = 15.0
# The most bytes of a request's head. Cookies and address are a small part of them. The limit also
# applies to the bytes between and after the parts of a body.
LARGEST_HEAD = 32_000
MOST_HEADERS = 100
# The seconds after which a connection is closed if its client reads nothing of an answer that
# waits.
UNREAD_SECONDS = 60.0
# The most bytes of an answer that the system buffers for the client. Linux doubles the number. By
# default it would buffer megabytes, and a slow client would seem to read nothing for minutes.
_TAKEN_AHEAD = 128_000

# The most connections of one process. More would be of no use to it.
_MOST_CONNECTIONS = 1_000
_WANTED_FILES = 4_096
_SECONDS_BETWEEN_LINES = 60.0


def raise_file_limit() -> int:
    """Raise the limit on open files to the number that the process can use. Returns the new
    limit."""
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
    """The open connections. At most `most` are allowed, because the process needs files for other
    things too.

    If there is one too many, a connection is closed. It is the one that has waited longest without
    sending a whole request. If none waits, it is the one that has left its answer unread for
    longest.
    """

    most: int
    # The connections that have not sent a whole request, in the order in which they began to wait.
    _waiting: "dict[BoundedProtocol, None]" = field(default_factory=dict)
    _busy: "set[BoundedProtocol]" = field(default_factory=set)
    # The connections that do not read their answers, in the order in which they stopped reading.
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
        """Add a new connection. It has not sent a whole request yet."""
        longest = next(iter(self._waiting), None) or next(iter(self._unread), None)
        self._waiting[connection] = None
        # No connection can be closed here, because every other one is being answered and reads its
        # answer. uvicorn then refuses this one with 503.
        if len(self) > self.most and longest is not None:
            self.close(longest, "too_many")

    @property
    def unread(self) -> int:
        """The number of connections that leave their answers unread."""
        return len(self._unread)

    def wait(self, connection: "BoundedProtocol") -> None:
        """Note that the answer to a connection is finished and that no further request has come
        from it."""
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
        # uvicorn itself would remove this connection a moment later. Until then it would refuse a
        # new connection with 503.
        connection.connections.discard(connection)
        self._closed[reason] += 1
        now = asyncio.get_running_loop().time()
        if now < self._next_line:
            # The closed connections are counted and logged together, because a line for each would
            # fill the disk.
            return
        warn(logger, "connections closed", open=len(self), **self._closed)
        self._next_line = now + _SECONDS_BETWEEN_LINES
        self._closed = dict.fromkeys(self._closed, 0)


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits: on the size of a request's head, on the wait for the head,
    and on the wait for a client that does not read."""

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._others = connections
        self._deadline: asyncio.TimerHandle | None = None
        # The bytes received since the last part of a body, or since the end of the last head.
        self._head_size = 0
        self._reading_deadline: asyncio.TimerHandle | None = None
        # The number of bytes that were not sent yet when `_reading_deadline` was set.
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
            # The parser turns this error into one of its own errors, and the answer is 400.
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
            # uvicorn does not notice if a small rest of the answer is not sent. The connection
            # would then stay open.
            self._expect_reader()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._others.stop_reading(self)
        self._expect_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._others.read_on(self)

    def _is_idle(self) -> bool:
        """Return whether the server is answering no request of this connection."""
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
            # Browsers open spare connections. Such a connection is closed without a line in the
            # log.
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
        # The check is over if the client has read everything. It is also over if the client reads
        # an answer that is still being written.
        is_over = not unsent or not (self.flow.write_paused or self._is_idle())
        if is_over:
            return
        if unsent < self._unsent:
            self._expect_reader()
        else:
            self._others.close(self, "unread")
