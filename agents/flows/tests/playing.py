"""Playing a chapter in a test: the same functions as the pages, each run to its end."""

import asyncio
import uuid

from asgiref.sync import async_to_sync

from agents.flows.replies import start_prompt, start_reroll
from agents.running.live import LIVE_REPLIES
from sessions.models import Session, Turn


async def reply_is_over(turn_id: uuid.UUID) -> None:
    live = LIVE_REPLIES.get(turn_id)
    if live is not None and live.task is not None:
        await asyncio.wait({live.task})


async def replies_are_over() -> None:
    """Of all that are being written in this process, however they end."""
    tasks = [live.task for live in LIVE_REPLIES.values() if live.task]
    await asyncio.gather(*tasks, return_exceptions=True)


def play(
    chapter: Session, text: str = "The door opens.", *, slot: int = 1, key: str | None = None
) -> Turn:
    """Send a prompt and wait until its turn is committed or broken."""

    async def run() -> Turn:
        opened = await start_prompt(
            chapter.pk, agent_slot=slot, user_text=text, submission_key=key or str(uuid.uuid4())
        )
        await reply_is_over(opened.turn.pk)
        return opened.turn

    turn = async_to_sync(run)()
    turn.refresh_from_db()
    chapter.refresh_from_db()
    return turn


def reroll(chapter: Session) -> Turn:
    async def run() -> Turn:
        opened = await start_reroll(chapter.pk, submission_key=str(uuid.uuid4()))
        await reply_is_over(opened.turn.pk)
        return opened.turn

    turn = async_to_sync(run)()
    turn.refresh_from_db()
    chapter.refresh_from_db()
    return turn


def play_many(chapter: Session, count: int) -> None:
    for _ in range(count):
        play(chapter, f"Beat {chapter.prompt_index + 1}.", slot=chapter.next_agent_slot)


def texts_of(chapter: Session) -> list[str]:
    """Prompts and replies as they were played."""
    return list(chapter.events.values_list("text", flat=True))
