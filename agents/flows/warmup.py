"""Reading ahead: the embedded model gets the unchanged start of the next prompt before it is sent.

A laptop reads about 100 tokens a second, so a prompt that was read while the GM typed answers
seconds earlier. Other providers are never called for this. A prompt to another character, and the
end of the chapter, stop it at once: the server must not read for nothing while somebody waits.
"""

import asyncio
import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import transaction
from django.db.models.signals import post_delete
from django.dispatch import receiver

from agents.calling.calls import warm_model
from agents.flows.composing import answer_to, compose_start
from agents.modes import agent_of
from agents.prompting.layers import Layer
from agents.providers.exceptions import ProviderError
from agents.running.database import in_database
from agents.running.unforeseen import traceback_of
from sessions.access import get_chapter
from sessions.exceptions import ChapterError, WrongState
from sessions.models import Session
from sessions.states import PLAYABLE

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Warming:
    """The one prompt that is being read ahead in this process."""

    session_id: uuid.UUID
    agent_slot: int
    task: "asyncio.Task[None]"


_warming: _Warming | None = None


async def warm_next_reply(session_id: uuid.UUID) -> None:
    """Warm the prompt of the character whose panel comes next; raises nothing."""
    if settings.LLM == "embedded":
        with _losing_no_more_than_a_head_start():
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


async def settle_warmup(session_id: uuid.UUID, agent_slot: int | None) -> None:
    """Before a real call: wait for what helps it, end what would only stand in its way."""
    if _warming is None or _warming.task.done():
        return
    if _is_warming(session_id, agent_slot):
        await asyncio.wait({_warming.task})
    else:
        # It hangs up at once; only its record takes longer, and nobody needs to wait for that.
        _warming.task.cancel()


def stop_warmup(session_id: uuid.UUID) -> None:
    """Stop reading ahead for a chapter that is not played on; from whatever thread."""
    warming = _warming
    if warming is not None and warming.session_id == session_id and not warming.task.done():
        warming.task.get_loop().call_soon_threadsafe(warming.task.cancel)


@receiver(post_delete, sender=Session)
def _stop_for_deleted(instance: Session, **_signal: object) -> None:
    """A chapter that was reset or deleted, by whomever."""
    session_id = instance.session_id
    transaction.on_commit(lambda: stop_warmup(session_id))


def _is_warming(session_id: uuid.UUID, agent_slot: int | None) -> bool:
    return (
        _warming is not None
        and not _warming.task.done()
        and (_warming.session_id, _warming.agent_slot) == (session_id, agent_slot)
    )


@contextmanager
def _losing_no_more_than_a_head_start() -> Iterator[None]:
    """Whatever fails in here: the prompt itself will say what is wrong."""
    try:
        yield
    except (ProviderError, ChapterError, DatabaseError):
        pass
    except Exception as error:  # noqa: BLE001  (nobody asks for the result of this task)
        logger.error("reading ahead met an error of the program:\n%s", traceback_of(error))


async def _warm(session_id: uuid.UUID, agent_slot: int) -> None:
    with _losing_no_more_than_a_head_start():
        agent = await in_database(lambda: agent_of(answer_to(get_chapter(session_id), agent_slot)))
        await warm_model(agent, session_id, lambda: _compose_start(session_id, agent_slot))


def _compose_start(session_id: uuid.UUID, agent_slot: int) -> Sequence[Layer]:
    """Raises WrongState where no prompt can come next: the server has better things to do."""
    chapter = get_chapter(session_id)
    if chapter.state not in PLAYABLE or chapter.is_ending or chapter.turn_in_flight is not None:
        raise WrongState("There is nothing to read ahead for: no prompt can be sent now.")
    return compose_start(chapter, agent_slot)
