"""Follows a reply that is being written, by this process or by another one.

A follower gets the text of the reply, the changes of each step between the texts, and the end. The
reply of another process is read from the attempt's row, whose text is up to a second old. Where the
broker is a Redis, its words are also read as the other process relays them.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import groupby

from agents.running.database import in_database
from agents.running.live import LIVE_REPLIES, ReplyEnded, ReplyPart, ReplyText, StepChanges
from agents.running.relay import RelayReader, is_relayed
from sessions.models import Attempt, Change
from sessions.play.breaking import recover_dead_attempts

# The seconds between two reads of the row of a reply of another process.
POLL_SECONDS = 0.5
# The text in the row is up to a second older than the relayed words. So if the row has another text
# within these seconds after the last relayed words, the words are newer than the row.
_FRESH_SECONDS = 2.5


async def follow(
    attempt_id: uuid.UUID, *, pause: float | None = None
) -> AsyncGenerator[ReplyPart | None]:
    """Yield the text of the reply so far with the changes of its steps, then each addition, and
    last the end of the reply. Of a reply that has ended, only the end is yielded.

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
    async with aclosing(_follow_elsewhere(attempt_id, pause)) as elsewhere:
        async for part in elsewhere:
            yield part


@dataclass
class ShownReply:
    """The state of one follower of another process's reply: the text that it has been shown, and
    the steps whose changes it has been told."""

    text: str | None = None
    _told: set[tuple[uuid.UUID | None, int]] = field(default_factory=set)

    def bring_to(
        self, text: str, steps: Sequence[StepChanges], run_id: uuid.UUID, note: str = ""
    ) -> Iterator[ReplyText | StepChanges]:
        """Yield the parts that turn the shown text into this text. The changes of a step come at
        their place in the text, so they wait until the text before them has come."""
        for step in steps:
            key = (run_id, step.step)
            if key in self._told or step.after_chars > len(text):
                continue
            self._told.add(key)
            before = text[: step.after_chars]
            if not (self.text or "").startswith(before):
                yield from self._show(before, note)
            yield step
        if text != self.text:
            yield from self._show(text, note)

    def _show(self, text: str, note: str) -> Iterator[ReplyText]:
        shown, self.text = self.text, text
        if shown is not None and text.startswith(shown):
            yield ReplyText(text[len(shown) :])
        else:
            yield ReplyText(text, is_restart=True, note=note)


def newest_text(in_row: str, relayed: str | None, *, is_fresh: bool) -> str:
    """Return the newest text of a reply. If one text begins with the other, the longer text is the
    newest. Otherwise the text was replaced, and the relayed text counts as the newer one as long as
    its words are fresh."""
    if relayed is None or in_row.startswith(relayed):
        return in_row
    return relayed if is_fresh or relayed.startswith(in_row) else in_row


class _Elsewhere:
    """Reads a reply of another process: its row, and the words that are relayed."""

    def __init__(self, attempt: Attempt, steps: Sequence[StepChanges]) -> None:
        self.shown = ShownReply()
        self._reader: RelayReader | None = None
        self._fresh_until = 0.0
        self._take_row(attempt, steps)

    async def read_row(self) -> None:
        self._take_row(*await in_database(_read_with_steps, self.attempt.pk))

    def _take_row(self, attempt: Attempt, steps: Sequence[StepChanges]) -> None:
        self.attempt, self.steps = attempt, steps

    async def wait(self, seconds: float) -> bool:
        """Wait for relayed words, at most for this time. Return whether the row has to be read."""
        if not is_relayed():
            await asyncio.sleep(seconds)
            return True
        if self._reader is None or self._reader.run_id != self.attempt.run_id:
            await self.close()
            self._reader = RelayReader(self.attempt.run_id)
        before = self._reader.relayed.text
        must_read_row = await self._reader.wait(seconds)
        if self._reader.relayed.text != before:
            self._fresh_until = time.monotonic() + _FRESH_SECONDS
        return must_read_row

    def new_parts(self) -> Iterator[ReplyText | StepChanges]:
        """Yield the parts of the reply that the reader has not been shown yet."""
        if self.attempt.status == Attempt.Status.COMMITTED:
            return
        relayed = self._reader.relayed if self._reader else None
        text = newest_text(
            self.attempt.partial_text,
            relayed.text if relayed else None,
            is_fresh=time.monotonic() < self._fresh_until,
        )
        note = relayed.note if relayed else ""
        yield from self.shown.bring_to(text, self.steps, self.attempt.run_id, note)

    async def close(self) -> None:
        if self._reader is not None:
            await self._reader.close()


async def _follow_elsewhere(
    attempt_id: uuid.UUID, pause: float | None
) -> AsyncGenerator[ReplyPart | None]:
    reply = _Elsewhere(*await in_database(_read_with_steps, attempt_id))
    paused_at = time.monotonic()
    try:
        while True:
            for part in reply.new_parts():
                yield part
            if not reply.attempt.is_running:
                yield ReplyEnded(reply.attempt)
                return
            read_at = time.monotonic() + POLL_SECONDS
            while (left := read_at - time.monotonic()) > 0:
                if pause is not None and time.monotonic() - paused_at >= pause:
                    paused_at = time.monotonic()
                    yield None
                if await reply.wait(left):
                    break
                for part in reply.new_parts():
                    yield part
            await reply.read_row()
    finally:
        await reply.close()


def read_step_changes(attempt: Attempt) -> list[StepChanges]:
    """Return the changes of the attempt's present run, by step. Late results, which the run took
    before its first step, are left out."""
    changes = attempt.changes.filter(run_id=attempt.run_id, step__gt=0).order_by("position")
    return [StepChanges(step, list(made)) for step, made in groupby(changes, key=_step_of)]


def _step_of(change: Change) -> int:
    return change.step


def _read_with_steps(attempt_id: uuid.UUID) -> tuple[Attempt, list[StepChanges]]:
    attempt = _read(attempt_id)
    is_committed = attempt.status == Attempt.Status.COMMITTED
    return attempt, [] if is_committed else read_step_changes(attempt)


def _read(attempt_id: uuid.UUID) -> Attempt:
    recover_dead_attempts()
    return Attempt.objects.get(pk=attempt_id, session__deleted_at=None)
