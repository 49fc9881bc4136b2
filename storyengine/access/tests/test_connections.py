"""Tests of how many connections may be open, and how long a client may take to send a request."""

import logging

import pytest

from storyengine.access import connections
from storyengine.access.connections import Connections
from storyengine.access.tests.serving import (
    HALF,
    PATIENCE,
    STREAM,
    WHOLE,
    Serve,
    is_answered,
    read_until,
)
from testing.program import wait_until


class TestHead:
    @pytest.fixture
    def _no_patience(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)

    @pytest.mark.usefixtures("_no_patience")
    @pytest.mark.parametrize("sent", [HALF, b"GET", b"\r\n", b""])
    def test_one_that_does_not_end_is_closed(self, serve: Serve, sent: bytes) -> None:
        _, visitors = serve()
        assert read_until(visitors.send(sent)) == b""

    @pytest.mark.usefixtures("_no_patience")
    @pytest.mark.parametrize("sent", [HALF, b"\r\n"])
    def test_nor_may_the_second_one_last_for_ever(self, serve: Serve, sent: bytes) -> None:
        _, visitors = serve()
        visitor = visitors.send(WHOLE)
        assert is_answered(visitor)
        visitor.sendall(sent)
        assert read_until(visitor).strip(b"0\r\n") == b""

    @pytest.mark.usefixtures("_no_patience")
    def test_a_stream_takes_as_long_as_it_takes(self, serve: Serve) -> None:
        served, visitors = serve()
        stream = visitors.send(STREAM)
        assert served.is_streaming.wait(PATIENCE)
        # This request is never whole, so the server closes its connection after the longest time
        # that a request may take. The stream was opened earlier and has lasted longer than this
        # time.
        assert read_until(visitors.send(HALF)) == b""
        served.may_end.set()
        assert is_answered(stream)

    @pytest.mark.parametrize(
        "sent",
        [
            HALF + b"X: " + b"x" * 200_000,
            b"GET /" + b"x" * 200_000,
            HALF + b"".join(b"X-%d: x\r\n" % at for at in range(200)) + b"\r\n",
            HALF + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 200_000,
            HALF + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: " + b"x" * 200_000,
        ],
        ids=["header", "address", "headers", "chunk", "trailer"],
    )
    def test_it_has_an_end(self, serve: Serve, sent: bytes) -> None:
        _, visitors = serve()
        visitor = visitors.send(sent[:1_000])
        try:
            visitor.sendall(sent[1_000:])
        except (BrokenPipeError, ConnectionResetError):
            return
        assert b"ended" not in read_until(visitor)

    def test_an_honest_one_fits(self, serve: Serve) -> None:
        _, visitors = serve()
        many = b"".join(b"X-%d: x\r\n" % at for at in range(90))
        assert is_answered(
            visitors.send(HALF, b"Cookie: " + b"x" * 15_000 + b"\r\n", many, b"\r\n")
        )

    def test_a_body_of_any_size_fits(self, serve: Serve) -> None:
        _, visitors = serve()
        length = b"Content-Length: 1000000\r\n\r\n"
        assert is_answered(visitors.send(HALF + length, *[b"x" * 10_000] * 100))


class TestTooMany:
    def test_who_waits_longest_gives_way(
        self, serve: Serve, caplog: pytest.LogCaptureFixture
    ) -> None:
        served, visitors = serve(most=10)
        waiting = [visitors.send(HALF) for _ in range(10)]
        wait_until(lambda: len(served.connections) == 10, "all to be open", seconds=PATIENCE)
        with caplog.at_level(logging.WARNING, logger=connections.logger.name):
            assert is_answered(visitors.send(WHOLE))
            assert read_until(waiting[0]) == b""
            [line] = caplog.records
        assert line.msg == "connections closed"
        fields = getattr(line, "fields", {})
        assert (fields["open"], fields["too_many"]) == (10, 1)
        # The server still answers a visitor whose connection it did not close.
        waiting[-1].sendall(b"\r\n")
        assert is_answered(waiting[-1])

    def test_what_is_being_answered_does_not(self, serve: Serve) -> None:
        served, visitors = serve(most=1)
        stream = visitors.send(STREAM)
        assert served.is_streaming.wait(PATIENCE)
        assert read_until(visitors.send(WHOLE)).startswith(b"HTTP/1.1 503 ")
        served.may_end.set()
        assert is_answered(stream)

    def test_an_unfinished_body_does(self, serve: Serve) -> None:
        served, visitors = serve(most=2)
        parked = visitors.send(HALF + b"Content-Length: 9\r\n\r\nx")
        wait_until(lambda: len(served.connections) == 1, "it to be open", seconds=PATIENCE)
        for _ in range(2):
            assert is_answered(visitors.send(WHOLE))
        assert b"ended" not in read_until(parked)

    def test_many_are_told_of_in_one_line(
        self, serve: Serve, caplog: pytest.LogCaptureFixture
    ) -> None:
        _, visitors = serve(most=10)
        with caplog.at_level(logging.WARNING, logger=connections.logger.name):
            waiting = [visitors.send(HALF) for _ in range(40)]
            for gone in waiting[:30]:
                assert read_until(gone) == b""
        assert len(caplog.records) == 1


@pytest.mark.parametrize(("files", "most"), [(256, 128), (1_024, 512), (4_096, 1_000)])
def test_half_of_them_are_for_connections(files: int, most: int) -> None:
    assert Connections.for_files(files).most == most
