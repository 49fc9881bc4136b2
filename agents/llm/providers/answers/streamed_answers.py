"""Reads a streamed reply within time limits and bounds on its size."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass

import httpx2

from agents.llm.providers.answers.answers import Answer
from agents.llm.providers.answers.event_data import EventData
from agents.llm.providers.base import StreamPart
from agents.llm.providers.bounds import (
    MOST_JSON,
    READ_ERRORS,
    TooMuch,
    most_bytes,
    parse,
    read_pieces,
)
from agents.llm.providers.failures.failures import Failure

logger = logging.getLogger(__name__)

_BLANKS = b" \t\r\n\xef\xbb\xbf"


@dataclass(frozen=True)
class TimeOuts:
    """The seconds to wait for each part of an answer. The first text may take minutes, because a
    local model has to read the request first."""

    connect: float = 10
    # The limit for the first text. It also applies to a whole answer that is not streamed, because
    # such an answer arrives all at once.
    first_text: float = 600
    between_texts: float = 120
    # The limit for the usage report and the end marker after a complete reply. It also applies to
    # the message of a refusal.
    trailer: float = 5
    # The limit for reading the rest of the response after its last event.
    drain: float = 0.1
    # The limit for a whole stream is `first_text`, plus this time for each token of output.
    a_token: float = 1

    def whole(self, output_limit: int) -> float:
        return self.first_text + self.a_token * output_limit


# Texts after the first one are gathered for this many seconds before they are sent on. Reading and
# sending each word by itself costs much more. With a hundred replies at once, no time would be left
# for anything else.
GROUP_SECONDS = 0.05
# A read that takes longer than this number of seconds must have waited for data from the server.
_WAITED_SECONDS = 0.001
# A time limit may be shorter than its nominal value by this fraction. So the timer need not be set
# again for each text.
_INEXACT = 0.05


class StreamedReply:
    def __init__(self, response: httpx2.Response, answer: Answer, limits: TimeOuts) -> None:
        self._answer = answer
        self._limits = limits
        self._pieces = read_pieces(response, most_bytes(answer.output_limit))
        self._events = EventData()
        # The unread events of the latest piece.
        self._found: Iterator[bytes] = iter(())
        self._is_marked = self._has_skipped = False
        # The body so far, if it may be one JSON text. None once the body is known to be a stream,
        # which the second field says.
        self._whole: list[bytes] | None = None
        self._whole_length = 0
        self._has_events = False

    async def parts(self) -> AsyncGenerator[StreamPart, None]:
        """Yield each part within its time limit. Errors after the end of the reply are ignored.

        Raises Failure or one of READ_ERRORS.
        """
        limits, answer = self._limits, self._answer
        put_off_again = 0.0
        now = asyncio.get_running_loop().time
        async with aclosing(self._pieces):
            # One timer guards all texts, because a timer for each text would cost more than reading
            # the text. One timer is enough, because the caller waits for nothing else between two
            # texts.
            async with asyncio.timeout(limits.first_text) as deadline:
                while not self._is_over:
                    asked = now()
                    piece = await anext(self._pieces, None)
                    if piece is None:
                        for part in self._take_end():
                            yield part
                        return
                    if answer.has_text and now() - asked > _WAITED_SECONDS:
                        # Data that arrives during this pause is read and sent on as one text.
                        await asyncio.sleep(GROUP_SECONDS)
                    had_text, batch = answer.has_text, self._feed(piece)
                    self._found = iter(batch)
                    for part in self._take_found():
                        yield part
                    # Some servers send comments without data to keep the connection open. Such a
                    # comment must not extend a time limit.
                    if batch and (now() > put_off_again or answer.has_text != had_text):
                        limit = limits.between_texts if answer.has_text else limits.first_text
                        deadline.reschedule(now() + limit)
                        put_off_again = now() + limit * _INEXACT
            if answer.is_overlong:
                # A server that exceeds the limit stops only when the connection is closed, so the
                # rest of the response is not read.
                return
            for part in await self._read_trailer():
                yield part
            await self._drain()

    @property
    def _is_over(self) -> bool:
        return self._is_marked or self._answer.is_complete

    def _feed(self, piece: bytes) -> list[bytes]:
        """Return the data of the events that end in this piece.

        Some gateways answer a request for a stream with one JSON text. This text is gathered, and
        read when it is complete.
        """
        self._answer.note(piece)
        if self._whole is None and not self._has_events and (begin := piece.lstrip(_BLANKS)):
            self._has_events = not begin.startswith((b"{", b"["))
            self._whole = None if self._has_events else []
        if self._whole is None:
            return self._events.feed(piece)
        self._whole.append(piece)
        self._whole_length += len(piece)
        if self._whole_length > MOST_JSON:
            raise TooMuch
        return []

    def _take_end(self) -> list[StreamPart]:
        """Return the parts that became complete with the end of the response."""
        if self._whole is None:
            self._found = iter(self._events.end())
            return list(self._take_found())
        data = b"".join(self._whole)
        try:
            return list(self._answer.take_whole(parse(data)))
        except TooMuch:
            raise
        except ValueError:
            # Some servers stream a JSON text in each line.
            self._found = iter(data.splitlines())
            return list(self._take_found())

    def _take_found(self) -> Iterator[StreamPart]:
        """Yield the parts of the events in `_found`, up to the end of the reply."""
        for data in self._found:
            yield from self._take(data)
            if self._is_over:
                return

    def _take(self, data: bytes) -> Sequence[StreamPart]:
        self._is_marked = data.startswith(b"[DONE]")
        if self._is_marked:
            self._answer.take_end_mark()
            return ()
        try:
            chunk = parse(data)
        except TooMuch:
            raise
        except ValueError:
            if not self._has_skipped:
                logger.warning("an event of a stream was no JSON, and was skipped")
            self._has_skipped = True
            return ()
        return self._answer.take(chunk)

    async def _read_trailer(self) -> list[StreamPart]:
        """Read the usage report after the end of the reply. Return any parts that still follow."""
        parts: list[StreamPart] = []
        with suppress(Failure, *READ_ERRORS):
            async with asyncio.timeout(self._limits.trailer):
                while not self._is_marked:
                    data = next(self._found, None)
                    if data is not None:
                        parts += self._take(data)
                    elif (piece := await anext(self._pieces, None)) is not None:
                        self._found = iter(self._events.feed(piece))
                    else:
                        break
        return parts

    async def _drain(self) -> None:
        """Read the response to its end, because the connection can be used again only then."""
        with suppress(*READ_ERRORS):
            async with asyncio.timeout(self._limits.drain):
                async for _ in self._pieces:
                    pass
