"""Tests of connections that a model server keeps, closes or resets, under asyncio and uvloop."""

import asyncio
import gc
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import suppress

import httpx2
import pytest

from agents.llm.providers.base import StreamPart, TextDelta
from agents.llm.providers.failures.call_errors import StreamBroken
from agents.llm.providers.http_clients import build_http_client
from agents.llm.providers.tests.chat_server import STREAM_HEAD, Exchange, chat_server, says
from agents.tests.calling import LONG, REQUEST, Outcome, provider_at, read_into

pytestmark = pytest.mark.usefixtures("calls_allowed")
in_both_loops = pytest.mark.anyio

CLOSED_ON_RESET = struct.pack("ii", 1, 0)
# The number of rounds of the event loop within which data on loopback certainly arrives.
ROUNDS = 200


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


async def let_others_run() -> None:
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


def still_open(writer: asyncio.StreamWriter) -> socket.socket:
    """Return a copy of the server's socket.

    The copy stays open when the event loop closes the server's socket.
    """
    return socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno()))


async def hang_up(writer: asyncio.StreamWriter, *, is_reset: bool = False) -> None:
    if is_reset:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, CLOSED_ON_RESET)
    writer.transport.abort()
    with suppress(ConnectionError):
        await writer.wait_closed()


@in_both_loops
class TestReading:
    @pytest.mark.parametrize("is_reset", [True, False], ids=["reset", "closed"])
    async def test_words_before_the_end_of_a_connection_are_kept(self, *, is_reset: bool) -> None:
        is_read, has_ended = asyncio.Event(), asyncio.Event()
        texts: list[str] = []

        async def answer(exchange: Exchange) -> None:
            await exchange.send_raw(STREAM_HEAD)
            await exchange.send_text("I step")
            await is_read.wait()
            for text in (" inside", " and", " look."):
                await exchange.send_text(text)
            await hang_up(exchange.writer, is_reset=is_reset)
            has_ended.set()

        async def read(parts: AsyncIterator[StreamPart]) -> None:
            async for part in parts:
                assert isinstance(part, TextDelta)
                texts.append(part.text)
                is_read.set()
                # Both the words and the end of the connection have arrived before the reader
                # continues.
                await has_ended.wait()
                await let_others_run()

        async with chat_server(answer) as server, asyncio.timeout(LONG):
            with pytest.raises(StreamBroken):
                await read(provider_at(server.base_url).stream(REQUEST))
        assert "".join(texts) == "I step inside and look."

    async def test_a_server_waits_for_a_reader_that_sleeps(self) -> None:
        # The data is several times as long as the system's buffers for one connection.
        part, count = bytes(64 * 1024), 1_600
        sent = received = 0

        async def answer(exchange: Exchange) -> None:
            nonlocal sent
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(part) * count)
            await exchange.send_raw(head)
            for _ in range(count):
                await exchange.send_raw(part)
                sent += len(part)

        async with (
            asyncio.timeout(LONG),
            chat_server(answer) as server,
            build_http_client(server.base_url, httpx2.Timeout(LONG)) as client,
            client.stream("POST", f"{server.base_url}/chat/completions", json={}) as response,
        ):
            reading = response.aiter_raw()
            received += len(await anext(reading))
            before = -1
            while sent > before:
                before = sent
                await let_others_run()
            assert sent < len(part) * count / 2
            async for data in reading:
                received += len(data)
        assert received == sent == len(part) * count


@in_both_loops
class TestIdleConnections:
    @pytest.mark.parametrize(
        ("event", "connections"), [("nothing", 1), ("closes", 2), ("resets", 2), ("speaks", 2)]
    )
    async def test_only_one_that_is_as_it_was_is_used_again(
        self, event: str, connections: int
    ) -> None:
        async with chat_server(says("Yes."), says("No.")) as server:
            outcome = Outcome(server)
            provider = provider_at(server.base_url, waits=outcome.waits)
            await read_into(outcome, provider)
            writer = server.exchanges[0].writer
            if event == "speaks":
                # The bytes are written directly to the socket, because the event loop may send
                # bytes with a delay.
                with still_open(writer) as peer:
                    peer.sendall(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
            elif event != "nothing":
                await hang_up(writer, is_reset=event == "resets")
            await read_into(outcome, provider)
            assert (outcome.text, outcome.waits) == ("Yes.No.", [])
            assert server.connections == connections


class TestClosing:
    @pytest.mark.parametrize("runner", ["asyncio", "uvloop"])
    def test_nothing_stays_open_after_the_loop(
        self, runner: str, recwarn: pytest.WarningsRecorder
    ) -> None:
        async def check() -> None:
            async with chat_server(says("Yes.")) as server:
                outcome = Outcome(server)
                await read_into(outcome, provider_at(server.base_url))
                assert outcome.text == "Yes."
                kept.append(still_open(server.exchanges[0].writer))

        # Objects that earlier tests left are collected first, because the warnings about them must
        # not be counted here.
        gc.collect()
        recwarn.clear()
        kept: list[socket.socket] = []
        pytest.importorskip(runner).run(check())
        with kept[0] as peer:
            assert peer.recv(1) == b""
        gc.collect()
        assert [str(each.message) for each in recwarn if each.category is ResourceWarning] == []


@pytest.mark.parametrize(
    ("base_url", "may_take_a_proxy"),
    [
        ("http://127.0.0.1:8080/v1", False),
        ("http://LOCALHOST/v1", False),
        ("http://[::1]:8080/v1", False),
        ("HTTPS://localhost/v1", False),
        ("http://192.168.1.7:11434/v1", True),
        ("https://llm.example/v1", True),
    ],
)
def test_only_a_server_elsewhere_is_called_through_a_proxy(
    monkeypatch: pytest.MonkeyPatch, base_url: str, *, may_take_a_proxy: bool
) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    client = build_http_client(base_url, httpx2.Timeout(LONG))
    assert bool(client._mounts) == may_take_a_proxy
