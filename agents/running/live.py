"""The replies that this process is writing, and a way to follow those of other processes."""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from agents.running.database import in_database
from sessions.breaking import recover_dead_attempts
from sessions.exceptions import ChapterError
from sessions.models import Attempt, Event

# The seconds between two reads of a reply of another process, which stores its text once a second.
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class ReplyText:
    """The next text of a reply. If `is_restart` is True, the text replaces all earlier text, and
    `note` may say why."""

    text: str
    is_restart: bool = False
    note: str = ""


@dataclass(frozen=True)
class ReplyEnded:
    """The end of a reply, with its attempt. `refusal` is the error by which the engine refused the
    reply. None if the engine did not refuse it.

    `events` are the events of the attempt if this process committed it, so that they need not be
    read again.
    """

    attempt: Attempt
    refusal: ChapterError | None = None
    events: Sequence[Event] = ()


ReplyPart = ReplyText | ReplyEnded


class _Timer:
    """A timer that calls `on_pause` at the end of each interval of `seconds`, or never if `seconds`
    is None.

    One timer costs less than a separate time limit for each wait.
    """

    def __init__(self, seconds: float | None, on_pause: Callable[[], None]) -> None:
        self._seconds = seconds
        self._on_pause = on_pause
        self._next: asyncio.TimerHandle | None = None
        self._has_paused = False

    def __enter__(self) -> "_Timer":
        self._start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._next is not None:
            self._next.cancel()

    def has_paused(self) -> bool:
        """Return whether an interval has ended since the last call of this method."""
        has_paused, self._has_paused = self._has_paused, False
        return has_paused

    def _start(self) -> None:
        if self._seconds is not None:
            self._next = asyncio.get_running_loop().call_later(self._seconds, self._pause)

    def _pause(self) -> None:
        self._has_paused = True
        self._start()
        self._on_pause()


@dataclass
class LiveReply:
    """The growing text of a reply, and the task that writes it. The task continues when the request
    that started it has ended."""

    parts: list[str] = field(default_factory=list)
    is_over: bool = False
    task: asyncio.Task[None] | None = None
    refusal: ChapterError | None = None
    # The error that keeps the text from being stored, such as a full disk.
    trouble: Exception | None = None
    # The end of the reply, if this process committed it. Any other end of the reply is read from
    # the row of the attempt.
    committed: ReplyEnded | None = None
    # Why the text was replaced last, and how often it was replaced.
    note: str = ""
    _replaced: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def append(self, text: str) -> None:
        self.parts.append(text)
        self._wake()

    def replace(self, text: str, note: str) -> None:
        """Replace all text so far by this text. `note` tells the readers why."""
        self.parts = [text] if text else []
        self.note = note
        self._replaced += 1
        self._wake()

    def finish(self) -> None:
        self.is_over = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def read(self, *, pause: float | None = None) -> AsyncGenerator[ReplyText | None]:
        """Yield the whole text from its beginning. A slow reader gets fewer and longer pieces.

        If `pause` is given, also yield None once in each interval of this many seconds.
        """
        position = replaced = 0
        is_first = True
        with _Timer(pause, self._wake) as timer:
            while True:
                changed = self._changed
                is_replaced = replaced != self._replaced
                if is_replaced or position < len(self.parts):
                    start = 0 if is_replaced else position
                    text = "".join(self.parts[start:])
                    position, replaced = len(self.parts), self._replaced
                    note = self.note if is_replaced else ""
                    yield ReplyText(text, is_restart=is_first or is_replaced, note=note)
                    is_first = False
                elif self.is_over:
                    return
                elif timer.has_paused():
                    yield None
                else:
                    await changed.wait()


LIVE_REPLIES: dict[uuid.UUID, LiveReply] = {}


async def follow(
    attempt_id: uuid.UUID, *, pause: float | None = None
) -> AsyncGenerator[ReplyPart | None]:
    """Yield the text of the reply so far, then each addition, and last the end of the reply.

    If `pause` is given, also yield None once in each interval of this many seconds. The reply
    continues even if its reader leaves. Raises Attempt.DoesNotExist if the chapter was reset or
    deleted. If the reply cannot be stored because the disk is full, the error is raised at the next
    pause.
    """
    live = LIVE_REPLIES.get(attempt_id)
    if live is not None:
        async with aclosing(live.read(pause=pause)) as texts:
            async for text in texts:
                if text is None and live.trouble is not None:
                    raise live.trouble
                yield text
        yield live.committed or ReplyEnded(await in_database(_read, attempt_id), live.refusal)
        return
    async for part in _follow_elsewhere(attempt_id, pause):
        yield part


async def _follow_elsewhere(
    attempt_id: uuid.UUID, pause: float | None
) -> AsyncIterator[ReplyPart | None]:
    shown = None
    paused_at = time.monotonic()
    while True:
        if pause is not None and time.monotonic() - paused_at >= pause:
            paused_at = time.monotonic()
            yield None
        attempt = await in_database(_read, attempt_id)
        if attempt.partial_text != shown and attempt.status != Attempt.Status.COMMITTED:
            shown = attempt.partial_text
            yield ReplyText(shown, is_restart=True)
        if not attempt.is_running:
            yield ReplyEnded(attempt)
            return
        await asyncio.sleep(POLL_SECONDS)


def _read(attempt_id: uuid.UUID) -> Attempt:
    recover_dead_attempts()
    return Attempt.objects.get(pk=attempt_id, session__deleted_at=None)
