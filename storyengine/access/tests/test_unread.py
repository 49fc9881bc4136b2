"""Tests of clients that do not read an answer.

The server closes the connection of such a client after some time, or when a new connection needs
room.
"""

import asyncio
import logging
from typing import Any, cast
from unittest.mock import Mock

import pytest
import uvicorn
from uvicorn.server import ServerState

from storyengine.access import connections
from storyengine.access.connections import BoundedProtocol, Connections
from storyengine.access.tests.serving import (
    PATIENCE,
    WHOLE,
    Serve,
    is_answered,
    read_until,
    whole_for,
)
from testing.program import wait_until

# The answer is larger than the system's buffers. If its client does not read, the server has to
# wait.
LARGE = whole_for(2_000_000)


def without_another(request: bytes) -> bytes:
    """Return the request in HTTP/1.0. uvicorn closes the connection of such a request after the
    answer."""
    return request.replace(b"1.1", b"1.0")


@pytest.mark.parametrize("request_", [LARGE, without_another(LARGE)])
def test_who_reads_nothing_is_let_go(
    serve: Serve,
    request_: bytes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.2)
    served, visitors = serve()
    with caplog.at_level(logging.WARNING, logger=connections.logger.name):
        visitor = visitors.send(request_)
        wait_until(lambda: bool(caplog.records), "it to be closed", seconds=PATIENCE)
    [line] = caplog.records
    assert getattr(line, "fields", {}) == {"open": 0, "too_many": 0, "too_slow": 0, "unread": 1}
    # The server ended the task that wrote the answer, and sent no more of the answer.
    wait_until(lambda: not served.is_at_work, "its answer to end", seconds=PATIENCE)
    assert b"ended" not in read_until(visitor)


@pytest.mark.parametrize("path", [b"/stream ", b"/stream/of/2000000 "])
def test_a_stream_that_has_nothing_to_send_goes_on(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, path: bytes
) -> None:
    """A stream with nothing to send is not closed, even if it had to wait for its client
    earlier."""
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.5)
    served, visitors = serve()
    stream = visitors.send(WHOLE.replace(b"/ ", path))
    read_until(stream, b"waiting")
    assert served.is_streaming.wait(PATIENCE)
    for _ in range(3):
        # The client of this connection reads nothing, so the server closes the connection after the
        # time for which an answer may stay unread. The stream was opened earlier and has lasted
        # longer than this time.
        visitors.send(LARGE)
        wait_until(lambda: len(served.connections) == 2, "both to be open", seconds=PATIENCE)
        wait_until(lambda: len(served.connections) == 1, "one to be closed", seconds=PATIENCE)
    served.may_end.set()
    assert is_answered(stream)


def test_who_has_read_nothing_for_longest_gives_way(serve: Serve) -> None:
    served, visitors = serve(most=2)
    unread = []
    for count in (1, 2):
        unread.append(visitors.send(LARGE))
        wait_until(lambda: served.connections.unread == count, "no reader", seconds=PATIENCE)  # noqa: B023
    assert is_answered(visitors.send(WHOLE))
    assert not is_answered(unread[0])
    assert is_answered(unread[1])


class Reader:
    """A transport with a slow reader. Each number of `unread` is the number of unread bytes at one
    look of the server."""

    def __init__(self, *unread: int) -> None:
        self.unread = list(unread)
        self.is_aborted = asyncio.Event()

    def get_extra_info(self, name: str) -> Any:
        return Mock() if name == "socket" else None

    def is_closing(self) -> bool:
        return self.is_aborted.is_set()

    def get_write_buffer_size(self) -> int:
        return self.unread.pop(0)

    def abort(self) -> None:
        self.is_aborted.set()


def test_a_slow_reader_stays_as_long_as_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0)

    async def play() -> None:
        reader = Reader(90_000, 80_000, 79_000, 78_999, 30_000, 30_000)
        config = uvicorn.Config(cast(Any, Mock()), lifespan="off", log_config=None)
        protocol = BoundedProtocol(
            Connections(9), config=config, server_state=ServerState(), app_state={}
        )
        protocol.connection_made(cast(asyncio.Transport, reader))
        protocol.pause_writing()
        await asyncio.wait_for(reader.is_aborted.wait(), PATIENCE)
        assert reader.unread == []
        protocol.connection_lost(ConnectionAbortedError())

    asyncio.run(play())
