"""The replies that this process is writing. A reader gets the text of a reply, and the changes of
each step between the texts."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sessions.exceptions import ChapterError
from sessions.models import Attempt, Change, Event


@dataclass(frozen=True)
class ReplyText:
    """The next text of a reply. If `is_restart` is True, the text replaces all earlier text, and
    `note` may say why."""

    text: str
    is_restart: bool = False
    note: str = ""


@dataclass(frozen=True)
class ReplyEnded:
    """The end of a reply, with its attempt. `refusal` is the error that the engine raised to refuse
    the reply. None if the engine did not refuse it.

    `events` are the events of the attempt if this process committed it, so that they need not be
    read again.
    """

    attempt: Attempt
    refusal: ChapterError | None = None
    events: Sequence[Event] = ()


@dataclass(frozen=True)
class StepChanges:
    """The stored changes of one step of a reply. They count once the reply is committed."""

    step: int
    changes: Sequence[Change]

    @property
    def after_chars(self) -> int:
        """The number of characters that the text had at the end of the step."""
        return self.changes[-1].after_chars


ReplyPart = ReplyText | StepChanges | ReplyEnded


@dataclass
class LiveReply:
    """The growing text of a reply, and the task that writes it. The task continues when the request
    that started it has ended.

    `parts` has pieces of text, and the changes of each step after the text of the step.
    """

    parts: list[str | StepChanges] = field(default_factory=list)
    is_over: bool = False
    task: asyncio.Task[None] | None = None
    refusal: ChapterError | None = None
    # The error that keeps the text from being stored, such as a full disk.
    trouble: Exception | None = None
    # The end of the reply, if this process committed it. Any other end of the reply is read from
    # the row of the attempt.
    committed: ReplyEnded | None = None
    # The reason why the text was last replaced, and how often it was replaced.
    note: str = ""
    _replaced: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def text(self) -> str:
        return _joined(self.parts)

    def append(self, part: str | StepChanges) -> None:
        self.parts.append(part)
        self._wake()

    def replace(self, text: str, note: str) -> None:
        """Replace all text so far by this text. `note` tells the readers why."""
        self.parts = [text] if text else []
        self.note = note
        self._replaced += 1
        self._wake()

    @property
    def place(self) -> int:
        return len(self.parts)

    def go_back(self, place: int, note: str) -> None:
        """Take back all text after this place. `place` is a value that the property `place` had
        earlier. The changes before the place are kept."""
        self.parts = self.parts[:place]
        self.note = note
        self._replaced += 1
        self._wake()

    def finish(self) -> None:
        self.is_over = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def read(
        self, *, pause: float | None = None
    ) -> AsyncGenerator[ReplyText | StepChanges | None]:
        """Yield the whole text from its beginning, with the changes of steps in their places. A
        slow reader gets fewer and longer pieces.

        If `pause` is given, also yield None once in each interval of this many seconds.
        """
        position = replaced = 0
        is_first = True
        # The steps whose changes were yielded. They are not taken back with the text.
        told: set[int] = set()
        later = asyncio.get_running_loop().call_later
        is_pause_due = False

        def end_interval() -> None:
            nonlocal is_pause_due
            is_pause_due = True
            self._wake()

        # One timer costs less than a separate time limit for each wait.
        timer = None if pause is None else later(pause, end_interval)
        try:
            while True:
                changed = self._changed
                is_replaced = replaced != self._replaced
                if is_replaced or position < len(self.parts):
                    start = 0 if is_replaced else position
                    new = self.parts[start:]
                    position, replaced = len(self.parts), self._replaced
                    note = self.note if is_replaced else ""
                    for text, step in _by_steps(new):
                        if text or is_first or is_replaced:
                            yield ReplyText(text, is_restart=is_first or is_replaced, note=note)
                        is_first, is_replaced = False, False
                        if step is not None and step.step not in told:
                            told.add(step.step)
                            yield step
                elif self.is_over:
                    return
                elif pause is not None and is_pause_due:
                    is_pause_due = False
                    timer = later(pause, end_interval)
                    yield None
                else:
                    await changed.wait()
        finally:
            if timer is not None:
                timer.cancel()


def _joined(parts: Iterable[str | StepChanges]) -> str:
    return "".join(part for part in parts if isinstance(part, str))


def _by_steps(parts: Sequence[str | StepChanges]) -> Iterator[tuple[str, StepChanges | None]]:
    """Yield pairs of a text and the changes directly after it. The last pair has the text after the
    last changes, and no changes."""
    begin = 0
    for at, part in enumerate(parts):
        if isinstance(part, StepChanges):
            yield _joined(parts[begin:at]), part
            begin = at + 1
    if begin < len(parts) or not parts:
        yield _joined(parts[begin:]), None


LIVE_REPLIES: dict[uuid.UUID, LiveReply] = {}
