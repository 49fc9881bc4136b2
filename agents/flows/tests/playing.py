"""Functions that play a chapter as the pages do, and wait until its replies have ended."""

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any

from asgiref.sync import async_to_sync

from agents.flows.replies.turns import start_prompt, start_reroll
from agents.running.live import LIVE_REPLIES
from sessions.models import Attempt, Session


async def reply_is_over(attempt_id: uuid.UUID) -> None:
    live = LIVE_REPLIES.get(attempt_id)
    if live is not None and live.task is not None:
        await asyncio.wait({live.task})


async def replies_are_over() -> None:
    """Wait until every reply that this process is writing has ended, successfully or not."""
    tasks = [live.task for live in LIVE_REPLIES.values() if live.task]
    await asyncio.gather(*tasks, return_exceptions=True)


def play(
    chapter: Session,
    text: str = "The door opens.",
    *,
    slot: int | None = 1,
    key: str | None = None,
    witnesses: Sequence[int] | None = None,
) -> Attempt:
    async def run() -> Attempt:
        opened = await start_prompt(
            chapter.pk,
            actor=slot,
            words=text,
            submission_key=key or str(uuid.uuid4()),
            witnesses=witnesses,
        )
        await reply_is_over(opened.attempt.pk)
        return opened.attempt

    attempt = async_to_sync(run)()
    attempt.refresh_from_db()
    chapter.refresh_from_db()
    return attempt


def reroll(chapter: Session, **sent: Any) -> Attempt:
    async def run() -> Attempt:
        opened = await start_reroll(chapter.pk, submission_key=str(uuid.uuid4()), **sent)
        await reply_is_over(opened.attempt.pk)
        return opened.attempt

    attempt = async_to_sync(run)()
    attempt.refresh_from_db()
    chapter.refresh_from_db()
    return attempt


def play_many(chapter: Session, count: int) -> None:
    for _ in range(count):
        play(chapter, f"Beat {chapter.prompt_index + 1}.", slot=chapter.next_agent_slot)


def texts_of(chapter: Session) -> list[str]:
    return list(chapter.events.values_list("text", flat=True))
