"""Reading a streamed reply: each text within its time, the whole within its own and its bounds."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass

import httpx2

from agents.providers.answers import Answer
from agents.providers.bounds import READ_ERRORS, most_bytes, parse, read_pieces
from agents.providers.event_data import EventData
from agents.providers.failures import Failure


@dataclass(frozen=True)
class TimeOuts:
    """Seconds to wait. The first word may take minutes: a local model reads the prompt first."""

    connect: float = 10
    # Also of all of an answer that is not streamed: nobody sees a word of it before its end.
    first_text: float = 600
    between_texts: float = 120
    # For the usage report and the end marker, once the reply is complete, and for what a server
    # says of a refusal.
    trailer: float = 5
    # For the end of the response, once there is nothing more to tell.
    drain: float = 0.1
    # A stream has as long in all as its first text may take, and this for each token of its limit.
    a_token: float = 1

    def whole(self, output_limit: int) -> float:
        return self.first_text + self.a_token * output_limit


# A text after the first is kept back for so long: to read and send on each word by itself costs
# many times what the word does, and with a hundred replies at once that is all there is time for.
GROUP_SECONDS = 0.05
# A chunk that has come already is there sooner.
_WAITED_SECONDS = 0.001
# By how much of itself a limit may fall short: few words then touch the timer.
_INEXACT = 0.05


class StreamedReply:
    def __init__(self, response: httpx2.Response, answer: Answer, limits: TimeOuts) -> None:
        self._answer = answer
        self._limits = limits
        self._pieces = read_pieces(response, most_bytes(answer.output_limit))
        self._events = EventData()
        # Of the latest piece, as far as they were not taken.
        self._found: Iterator[bytes] = iter(())
        self._is_marked = False

    async def texts(self) -> AsyncGenerator[str, None]:
        """Each within its time; what fails after the reply's end is not missed.

        Raises Failure or one of READ_ERRORS.
        """
        limits, answer = self._limits, self._answer
        put_off_again = 0.0
        now = asyncio.get_running_loop().time
        async with aclosing(self._pieces):
            # Around all of them, because one for each would cost more than the text: whoever takes
            # them waits for nothing else in between.
            async with asyncio.timeout(limits.first_text) as deadline:
                while not self._is_over:
                    asked = now()
                    piece = await anext(self._pieces, None)
                    if piece is None:
                        return
                    if answer.has_text and now() - asked > _WAITED_SECONDS:
                        # What arrives meanwhile is then read, and sent on, in one piece with it.
                        await asyncio.sleep(GROUP_SECONDS)
                    had_text, batch = answer.has_text, self._events.feed(piece)
                    self._found = iter(batch)
                    for text in self._take_found():
                        yield text
                    # A sign of life without data, which some servers send, is none.
                    if batch and (now() > put_off_again or answer.has_text != had_text):
                        limit = limits.between_texts if answer.has_text else limits.first_text
                        deadline.reschedule(now() + limit)
                        put_off_again = now() + limit * _INEXACT
            if answer.is_overlong:
                # The connection is closed, or the server would write on.
                return
            if text := await self._read_trailer():
                yield text
            await self._drain()

    @property
    def _is_over(self) -> bool:
        return self._is_marked or self._answer.is_complete

    def _take_found(self) -> Iterator[str]:
        """The texts of the events up to the reply's end."""
        for data in self._found:
            if text := self._take(data):
                yield text
            if self._is_over:
                return

    def _take(self, data: bytes) -> str:
        self._is_marked = data.startswith(b"[DONE]")
        return "" if self._is_marked else self._answer.take(parse(data))

    async def _read_trailer(self) -> str:
        """What follows the reply's end: its usage."""
        texts: list[str] = []
        with suppress(Failure, *READ_ERRORS):
            async with asyncio.timeout(self._limits.trailer):
                while not self._is_marked:
                    data = next(self._found, None)
                    if data is not None:
                        texts.append(self._take(data))
                    elif (piece := await anext(self._pieces, None)) is not None:
                        self._found = iter(self._events.feed(piece))
                    else:
                        break
        return "".join(texts)

    async def _drain(self) -> None:
        """A connection that was read to its end is used again."""
        with suppress(*READ_ERRORS):
            async with asyncio.timeout(self._limits.drain):
                async for _ in self._pieces:
                    pass
