"""Reads many streams at once in one event loop. The client does very little work for each token, so
that it hardly disturbs the program that is measured."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from testing.http_calls import RunError, Server

# The text of each prompt. The log of the model server has this text too, and so shows which call
# belongs to which prompt.
MARK = "Turn {}-{} of the load."
ANSWER_SECONDS = 120.0
_TOKEN, _TURN, _ERROR = b"event: token", b"event: turn", b"event: error"


@dataclass
class StreamedTurn:
    """A turn whose prompt was sent at the time `at`.

    `first_token` is the number of seconds from this time to the first token, or None if no token
    came.
    """

    mark: str
    at: float
    first_token: float | None = None
    last: float = 0.0
    bytes: int = 0
    is_whole: bool = False
    error: str = ""


class _Reader(asyncio.Protocol):
    """A reader that looks for the first token and for the end of a stream. It stores no other part
    of the stream."""

    def __init__(self, turn: StreamedTurn, request: bytes) -> None:
        self._turn = turn
        self._request = request
        self._end = b""
        self.is_over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._turn.at = time.perf_counter()
        transport.write(self._request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        turn, now = self._turn, time.perf_counter() - self._turn.at
        turn.bytes += len(data)
        turn.last = now
        # The name of an event may be divided between two pieces of data.
        seen = self._end + data
        self._end = seen[-32:]
        if turn.first_token is None:
            if not seen.startswith(b"HTTP/1.1 200") and turn.bytes == len(data):
                turn.error = data[:400].decode(errors="replace")
            if _TOKEN in seen:
                turn.first_token = now
        if _ERROR in seen:
            turn.error = seen[-400:].decode(errors="replace")
        turn.is_whole = turn.is_whole or _TURN in seen

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.is_over.done():
            self.is_over.set_result(None)


async def stream_turn(
    server: Server, path: str, body: dict[str, object], mark: str
) -> StreamedTurn:
    """Send a prompt over a connection of its own, and read the stream of its reply to the end."""
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {server.host}:{server.port}\r\n"
        "Accept: text/event-stream\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    turn = StreamedTurn(mark, time.perf_counter())
    loop = asyncio.get_running_loop()
    transport, reader = await loop.create_connection(
        lambda: _Reader(turn, head.encode() + content), server.host, server.port
    )
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await reader.is_over
    except TimeoutError:
        turn.error = turn.error or "no end within two minutes"
    finally:
        transport.close()
    return turn


@dataclass
class Played:
    """The turns whose prompts were sent while the load was steady. `seconds` is the length of this
    steady time."""

    turns: list[StreamedTurn] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def failures(self) -> list[str]:
        return [turn.error or "cut short" for turn in self.turns if not turn.is_whole]


@dataclass(frozen=True)
class Load:
    """The times of a load, in seconds.

    During `ramp` seconds the chapters begin one after the other. Then the measurement lasts for
    `steady` seconds. Only prompts that are sent in these seconds count.
    """

    ramp: float
    steady: float


async def play_at_once(server: Server, chapters: Sequence[str], load: Load) -> Played:
    """Play all chapters at once. Each chapter sends its next prompt as soon as its reply is
    complete.

    The chapters begin one after the other, spread over the ramp, because people would not all begin
    at once. Raise RunError if most turns fail.
    """
    played = Played()
    begin = time.perf_counter()
    steady_from, end = begin + load.ramp, begin + load.ramp + load.steady

    async def play(number: int, session_id: str) -> None:
        await asyncio.sleep(load.ramp * number / len(chapters))
        count = 0
        while time.perf_counter() < end:
            count += 1
            mark = MARK.format(session_id, f"{begin:.0f}-{count}")
            body: dict[str, object] = {"agent_slot": count % 3 + 1, "user_text": mark}
            turn = await stream_turn(server, f"/api/session/{session_id}/prompt", body, mark)
            if turn.at >= steady_from:
                played.turns.append(turn)
            if not turn.is_whole:
                await asyncio.sleep(0.5)

    async with asyncio.TaskGroup() as tasks:
        for number, session_id in enumerate(chapters):
            tasks.create_task(play(number, session_id))
    played.seconds = load.steady
    if len(played.failures) > len(played.turns) / 2:
        raise RunError(f"Most streams failed: {played.failures[0]}")
    return played
