"""Reads many streams at once in one event loop. The client does little work for each token, so that
it hardly disturbs the program that is measured."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from testing.http_calls import RunError, Server

# The text of each prompt. The log of the model server has this text too, and so shows which call
# belongs to which prompt.
MARK = "Turn {}-{} of the load."
ANSWER_SECONDS = 120.0


@dataclass
class StreamedTurn:
    """A turn whose prompt was sent at the time `at`, with the seconds to its first token."""

    mark: str
    at: float
    first_token: float | None = None
    is_whole: bool = False
    error: str = "cut short"


async def stream_turn(server: Server, session_id: str, slot: int, mark: str) -> StreamedTurn:
    """Send a prompt over a connection of its own, and read the stream of its reply to the end."""
    content = json.dumps({"agent_slot": slot, "user_text": mark}).encode()
    head = (
        f"POST /api/session/{session_id}/prompt HTTP/1.1\r\nHost: {server.host}:{server.port}\r\n"
        "Accept: text/event-stream\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(server.host, server.port)
    turn = StreamedTurn(mark, time.perf_counter())
    writer.write(head.encode() + content)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            while line := await reader.readline():
                if turn.first_token is None and line.startswith(b"event: token"):
                    turn.first_token = time.perf_counter() - turn.at
                elif line.startswith(b"event: error"):
                    turn.error = (await reader.readline()).decode(errors="replace")
                turn.is_whole = turn.is_whole or line.startswith(b"event: turn")
    except TimeoutError:
        turn.error = "no end within two minutes"
    finally:
        writer.close()
    return turn


async def play_at_once(
    server: Server, chapters: Sequence[str], *, ramp: float, steady: float
) -> list[StreamedTurn]:
    """Play all chapters at once, and return the turns whose prompts were sent in the `steady`
    seconds after the ramp. Raise RunError if most turns fail.

    Each chapter sends its next prompt as soon as its reply is complete. They begin one after the
    other, spread over the `ramp` seconds, because people would not all begin at once.
    """
    turns: list[StreamedTurn] = []
    begin = time.perf_counter()

    async def play(number: int, session_id: str) -> None:
        await asyncio.sleep(ramp * number / len(chapters))
        count = 0
        while time.perf_counter() < begin + ramp + steady:
            count += 1
            mark = MARK.format(session_id, f"{begin:.0f}-{count}")
            turn = await stream_turn(server, session_id, count % 3 + 1, mark)
            if turn.at >= begin + ramp:
                turns.append(turn)
            if not turn.is_whole:
                await asyncio.sleep(0.5)

    async with asyncio.TaskGroup() as tasks:
        for number, session_id in enumerate(chapters):
            tasks.create_task(play(number, session_id))
    failures = [turn.error for turn in turns if not turn.is_whole]
    if len(failures) > len(turns) / 2:
        raise RunError(f"Most streams failed: {failures[0]}")
    return turns
