"""Reading ahead: the embedded model gets the unchanged start of the next prompt before it is sent.

A laptop reads about 100 tokens a second, so a prompt that was read while the GM typed answers
seconds earlier. Other providers are never called for this.
"""

import asyncio
import contextlib
import uuid
from dataclasses import dataclass

from django.conf import settings

from agents.calls import warm_model
from agents.characters import compose_start
from agents.database import in_database
from agents.declarations import CHARACTERS
from agents.providers.exceptions import ProviderError
from sessions.access import get_chapter
from sessions.exceptions import ChapterError


@dataclass(frozen=True)
class _Warming:
    """The one prompt that is being read ahead in this process."""

    session_id: uuid.UUID
    agent_slot: int
    task: "asyncio.Task[None]"


_warming: _Warming | None = None


async def warm_next_reply(session_id: uuid.UUID) -> None:
    """Warm the prompt of the character whose panel comes next."""
    if settings.LLM == "embedded":
        slot = await in_database(lambda: get_chapter(session_id).next_agent_slot)
        await warm_reply(session_id, slot)


async def warm_reply(session_id: uuid.UUID, agent_slot: int) -> None:
    """Start reading the next prompt to this character ahead, instead of any other."""
    global _warming
    if settings.LLM != "embedded" or _is_warming(session_id, agent_slot):
        return
    if _warming is not None:
        _warming.task.cancel()
    _warming = _Warming(session_id, agent_slot, asyncio.create_task(_warm(session_id, agent_slot)))


async def settle_warmup(session_id: uuid.UUID, agent_slot: int) -> None:
    """Before a real call: wait for what helps it, end what would only stand in its way."""
    if _warming is None or _warming.task.done():
        return
    if not _is_warming(session_id, agent_slot):
        _warming.task.cancel()
    await asyncio.wait({_warming.task})


def _is_warming(session_id: uuid.UUID, agent_slot: int) -> bool:
    return (
        _warming is not None
        and not _warming.task.done()
        and (_warming.session_id, _warming.agent_slot) == (session_id, agent_slot)
    )


async def _warm(session_id: uuid.UUID, agent_slot: int) -> None:
    # Without it only a head start is lost: the prompt itself will say what is wrong.
    with contextlib.suppress(ProviderError, ChapterError):
        await warm_model(
            CHARACTERS[agent_slot], session_id, lambda: compose_start(session_id, agent_slot)
        )
