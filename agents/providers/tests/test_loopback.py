"""Connections to a model on this machine, under both loops: what a server does to them."""

import asyncio
import gc
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress

import httpcore2
import httpx2
import pytest

from agents.providers.base import StreamPart, TextDelta
from agents.providers.exceptions import StreamBroken
from agents.providers.loopback import MOST_HELD, LoopbackBackend, LoopbackStream, LoopbackTransport
from agents.providers.openai_compatible import build_http_client
from agents.providers.tests.chat_server import STREAM_HEAD, Exchange, chat_server, says
from agents.tests.calling import LONG, REQUEST, SHORT, Outcome, provider_at, read_into

pytestmark = pytest.mark.usefixtures("calls_allowed")
in_both_loops = pytest.mark.anyio

# What a loop takes of a socket at once.
READ_AT_ONCE = 256 * 1024
CLOSED_ON_RESET = struct.pack("ii", 1, 0)


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[LoopbackStream, socket.socket]]:
    """A connection with the server's end of it: the test is the server, between two rounds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with asyncio.timeout(LONG):
            stream = await connect(listener.getsockname()[1])
            peer, _ = listener.accept()
            with closing(peer):
                try:
                    yield stream, peer
                finally:
                    await stream.aclose()


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0)


async def connect(port: int, *, timeout: float = LONG) -> LoopbackStream:
    return await LoopbackBackend().connect_tcp("127.0.0.1", port, timeout=timeout)


async def waiting_at(stream: LoopbackStream) -> "asyncio.Task[bytes]":
    task = asyncio.create_task(stream.read(99))
    await until(lambda: stream._news is not None)
    return task


def reset(peer: socket.socket) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, CLOSED_ON_RESET)
    peer.close()


def still_open(writer: asyncio.StreamWriter) -> socket.socket:
    """The server's end also after its loop has closed it."""
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
    async def test_what_came_before_a_reset_is_read_first(self) -> None:
        async with connected() as (stream, peer):
            peer.sendall(b"I step inside.")
            await until(lambda: len(stream._held) == 14)
            reset(peer)
            await until(lambda: stream._has_ended)
            assert await stream.read(9) == b"I step in"
            assert await stream.read(9) == b"side."
            with pytest.raises(httpcore2.ReadError):
                await stream.read(9)
            with pytest.raises(httpcore2.WriteError):
                await stream.write(b"Who?")

    async def test_words_before_a_reset_are_kept(self) -> None:
        is_read, is_reset = asyncio.Event(), asyncio.Event()
        texts: list[str] = []

        async def answer(exchange: Exchange) -> None:
            await exchange.send_raw(STREAM_HEAD)
            await exchange.send_text("I step")
            await is_read.wait()
            for text in (" inside", " and", " look."):
                await exchange.send_text(text)
            await hang_up(exchange.writer, is_reset=True)
            is_reset.set()

        async def read(parts: AsyncIterator[StreamPart]) -> None:
            async for part in parts:
                assert isinstance(part, TextDelta)
                texts.append(part.text)
                is_read.set()
                # Both the words and the reset come while nobody reads.
                await is_reset.wait()
                for _ in range(100):
                    await asyncio.sleep(0)

        async with chat_server(answer) as server, asyncio.timeout(LONG):
            with pytest.raises(StreamBroken):
                await read(provider_at(server.base_url).stream(REQUEST))
        assert "".join(texts) == "I step inside and look."

    async def test_a_reset_wakes_who_waits(self) -> None:
        async with connected() as (stream, peer):
            waiting = await waiting_at(stream)
            reset(peer)
            with pytest.raises(httpcore2.ReadError):
                await waiting

    async def test_so_does_the_servers_end(self) -> None:
        async with connected() as (stream, peer):
            waiting = await waiting_at(stream)
            peer.close()
            assert (await waiting, await stream.read(9)) == (b"", b"")

    async def test_a_reader_that_gave_up_has_lost_nothing(self) -> None:
        async with connected() as (stream, peer):
            waiting = await waiting_at(stream)
            # What comes and the end of the wait meet in one round of the loop.
            peer.sendall(b"I step")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await stream.read(9) == b"I step"
            with pytest.raises(httpcore2.ReadTimeout):
                await stream.read(9, timeout=SHORT)
            peer.sendall(b" inside")
            assert await stream.read(9, timeout=LONG) == b" inside"

    @pytest.mark.parametrize("size", [200_000, 20_000_000])
    async def test_a_server_waits_for_a_reader_that_sleeps(self, size: int) -> None:
        data = bytes(range(250)) * (size // 250)
        received = bytearray()
        async with connected() as (stream, peer):
            sending = asyncio.create_task(asyncio.to_thread(peer.sendall, data))
            await until(lambda: stream._is_paused)
            if size < 1_000_000:
                # Little enough to be on its way as a whole; then the server hangs up.
                await sending
                peer.close()
            for _ in range(200):
                await asyncio.sleep(0)
            assert len(stream._held) <= MOST_HELD + READ_AT_ONCE
            while len(received) < size:
                received += await stream.read(MOST_HELD)
            await sending
        assert received == data


@in_both_loops
class TestWriting:
    async def test_a_server_that_does_not_read_has_its_time(self) -> None:
        async with connected() as (stream, _):
            with suppress(httpcore2.WriteTimeout):
                while True:
                    await stream.write(bytes(10_000), timeout=SHORT)
            # All before has left this process when its write ended.
            assert 0 < stream._transport.get_write_buffer_size() <= 10_000

    async def test_a_reset_ends_the_wait_for_it(self) -> None:
        async with connected() as (stream, peer):
            writing = asyncio.create_task(stream.write(bytes(20_000_000)))
            await until(lambda: not stream._may_write.is_set())
            reset(peer)
            with pytest.raises(httpcore2.WriteError):
                await writing


@in_both_loops
class TestIdleConnections:
    @pytest.mark.parametrize("event", ["closes", "resets", "speaks"])
    async def test_one_of_no_more_use_is_told_before_and_after_the_loop_sees_it(
        self, event: str
    ) -> None:
        async with connected() as (stream, peer):
            assert not stream.get_extra_info("is_readable")
            if event == "speaks":
                peer.sendall(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
            else:
                (reset if event == "resets" else socket.socket.close)(peer)
            assert stream.get_extra_info("is_readable")
            await until(lambda: stream._has_ended or bool(stream._held))
            assert stream.get_extra_info("is_readable")

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
                # Not over the loop, which may put it off.
                with still_open(writer) as peer:
                    peer.sendall(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
            elif event != "nothing":
                await hang_up(writer, is_reset=event == "resets")
            await read_into(outcome, provider)
            assert (outcome.text, outcome.waits) == ("Yes.No.", [])
            assert server.connections == connections


class TestClosing:
    @in_both_loops
    async def test_who_waits_for_words_is_told(self) -> None:
        async with connected() as (stream, peer):
            waiting = await waiting_at(stream)
            await stream.aclose()
            # Already, because a loop that ends has no further round.
            peer.setblocking(False)
            assert peer.recv(1) == b""
            with pytest.raises(httpcore2.ReadError):
                await waiting
            assert stream.get_extra_info("is_readable")

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

        # What tests before this one have left to be collected is not this one's.
        gc.collect()
        recwarn.clear()
        kept: list[socket.socket] = []
        pytest.importorskip(runner).run(check())
        with kept[0] as peer:
            assert peer.recv(1) == b""
        gc.collect()
        assert [str(each.message) for each in recwarn if each.category is ResourceWarning] == []


@in_both_loops
class TestConnecting:
    async def test_nobody_listens(self) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            with pytest.raises(httpcore2.ConnectError):
                await connect(port)

    async def test_it_has_its_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def hang(*_: object) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", hang)
        async with asyncio.timeout(LONG):
            with pytest.raises(httpcore2.ConnectTimeout):
                await connect(9, timeout=SHORT)


class TestServers:
    @pytest.mark.parametrize(
        ("base_url", "is_own", "may_take_a_proxy"),
        [
            ("http://127.0.0.1:8080/v1", True, False),
            ("http://LOCALHOST/v1", True, False),
            ("http://[::1]:8080/v1", True, False),
            ("https://127.0.0.1/v1", False, False),
            ("HTTPS://localhost/v1", False, False),
            ("http://192.168.1.7:11434/v1", False, True),
            ("https://llm.example/v1", False, True),
        ],
    )
    def test_only_plain_ones_on_this_machine_get_these_connections(
        self,
        monkeypatch: pytest.MonkeyPatch,
        base_url: str,
        *,
        is_own: bool,
        may_take_a_proxy: bool,
    ) -> None:
        monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        client = build_http_client(base_url, httpx2.Timeout(LONG))
        assert isinstance(client._transport, LoopbackTransport) == is_own
        assert bool(client._mounts) == may_take_a_proxy

    def test_limits_are_the_same_either_way(self) -> None:
        def pool_at(host: str) -> dict[str, object]:
            transport = build_http_client(f"http://{host}/v1", httpx2.Timeout(LONG))._transport
            assert isinstance(transport, httpx2.AsyncHTTPTransport)
            others = ("_requests", "_connections", "_network_backend", "_optional_thread_lock")
            return {name: it for name, it in vars(transport._pool).items() if name not in others}

        assert pool_at("127.0.0.1") == pool_at("llm.example")
        assert pool_at("127.0.0.1")["_keepalive_expiry"] == 120
