"""Replies that are being written in this process, and a way to follow any reply from anywhere."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field

from agents.database import in_database
from sessions.exceptions import ChapterError
from sessions.models import Turn
from sessions.turns import recover_stale_turns

# How often a reply of another process is looked up; that process flushes once a second.
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class ReplyText:
    """The next text of a reply; with `is_restart` it replaces all that was shown so far."""

    text: str
    is_restart: bool = False


@dataclass(frozen=True)
class ReplyEnded:
    """The last part: what became of the turn, and the refusal if the engine itself refused it."""

    turn: Turn
    refusal: ChapterError | None = None


ReplyPart = ReplyText | ReplyEnded


@dataclass
class LiveReply:
    """The text of a reply as it grows, and its task, which belongs to no request."""

    parts: list[str] = field(default_factory=list)
    is_over: bool = False
    task: asyncio.Task[None] | None = None
    refusal: ChapterError | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def append(self, text: str) -> None:
        self.parts.append(text)
        self._wake()

    def finish(self) -> None:
        self.is_over = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def read(self) -> AsyncIterator[str]:
        """All text from the beginning, in as few pieces as the reader's pace allows."""
        position = 0
        while True:
            changed = self._changed
            if position < len(self.parts):
                text = "".join(self.parts[position:])
                position = len(self.parts)
                yield text
            elif self.is_over:
                return
            else:
                await changed.wait()


LIVE_REPLIES: dict[uuid.UUID, LiveReply] = {}


async def follow(turn_id: uuid.UUID) -> AsyncGenerator[ReplyPart]:
    """The reply's text so far, then what is added, then how it ended.

    Leaving early does not touch the reply. Raises Turn.DoesNotExist when the chapter was reset.
    """
    live = LIVE_REPLIES.get(turn_id)
    if live is not None:
        is_first = True
        async for text in live.read():
            yield ReplyText(text, is_restart=is_first)
            is_first = False
        yield ReplyEnded(await in_database(_read, turn_id), live.refusal)
        return
    async for part in _follow_elsewhere(turn_id):
        yield part


async def _follow_elsewhere(turn_id: uuid.UUID) -> AsyncIterator[ReplyPart]:
    shown = None
    while True:
        turn = await in_database(_read, turn_id)
        if turn.partial_text != shown and turn.status != Turn.Status.COMMITTED:
            shown = turn.partial_text
            yield ReplyText(shown, is_restart=True)
        if not turn.is_running:
            yield ReplyEnded(turn)
            return
        await asyncio.sleep(POLL_SECONDS)


def _read(turn_id: uuid.UUID) -> Turn:
    recover_stale_turns()
    return Turn.objects.get(pk=turn_id)
