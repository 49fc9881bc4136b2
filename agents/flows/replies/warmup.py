"""Warms up the embedded model: the model reads the start of the next request before the GM sends a
prompt.

A laptop reads about 100 tokens a second. If the request was read while the GM typed, the reply
begins seconds earlier. No other provider is warmed up. A prompt to another character or the end of
the chapter stops the warm-up at once, so that the server is free for other calls.
"""

import asyncio
import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import Error as DatabaseError
from django.db import transaction
from django.db.models.signals import post_delete
from django.dispatch import receiver

from agents.calling.calls import warm_model
from agents.calling.servers.choices import may_use_embedded
from agents.flows.replies.composing import addressed_next, answer_to, compose_start, writer_of
from agents.llm.providers.failures.call_errors import ProviderError
from agents.models import Job
from agents.prompting.layers import Layer
from agents.running.database import in_database
from agents.running.unforeseen import traceback_of
from sessions.chapter.access import get_chapter
from sessions.chapter.stories import chapter_deleted
from sessions.exceptions import ChapterError, WrongState
from sessions.models import PLAYABLE, Session

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Warming:
    """A warm-up. A process has at most one warm-up at a time."""

    session_id: uuid.UUID
    # The slot of the character, or None for the writer who answers a prompt to nobody.
    agent_slot: int | None
    task: "asyncio.Task[None]"


_warming: _Warming | None = None


async def warm_next_reply(session_id: uuid.UUID) -> None:
    """Warm up the model for the writer who answers a prompt to nobody. If the mode has no such
    writer, warm it up for the character whose panel comes next. Raises no error."""
    if may_use_embedded():
        with _losing_no_more_than_a_head_start():
            await warm_reply(session_id, await in_database(_addressed_next, session_id))


def _addressed_next(session_id: uuid.UUID) -> int | None:
    """Return whom the next prompt addresses. Raises WrongState if somebody acts without a prompt
    before that."""
    chapter = get_chapter(session_id)
    live = (Job.Status.QUEUED, Job.Status.RUNNING)
    if chapter.jobs.filter(kind=Job.Kind.GO_ON, status__in=live).exists():
        raise WrongState("Somebody acts without a prompt first.")
    return addressed_next(chapter)


async def warm_reply(session_id: uuid.UUID, agent_slot: int | None) -> None:
    """Start to warm up the model for this character, or with None for the writer who answers a
    prompt to nobody. Stop any other warm-up."""
    global _warming
    if not may_use_embedded() or _is_warming(session_id, agent_slot):
        return
    if _warming is not None:
        _warming.task.cancel()
    _warming = _Warming(session_id, agent_slot, asyncio.create_task(_warm(session_id, agent_slot)))


async def settle_warmup(session_id: uuid.UUID, agent_slot: int | None) -> None:
    """Prepare for a call to this character: wait for a warm-up for the same character, and cancel
    any other warm-up."""
    if _warming is None or _warming.task.done():
        return
    if _is_warming(session_id, agent_slot):
        await asyncio.wait({_warming.task})
    else:
        # Cancelling closes the connection at once. The call need not wait until the record of the
        # warm-up is stored, which takes longer.
        _warming.task.cancel()


def stop_warmup(session_id: uuid.UUID) -> None:
    """Stop the warm-up of this chapter. Any thread may call this function."""
    warming = _warming
    if warming is not None and warming.session_id == session_id and not warming.task.done():
        warming.task.get_loop().call_soon_threadsafe(warming.task.cancel)


@receiver(chapter_deleted)
def _stop_for_deleted(session_id: uuid.UUID, **_signal: object) -> None:
    """Stop the warm-up of a chapter that was deleted."""
    stop_warmup(session_id)


@receiver(post_delete, sender=Session)
def _stop_for_removed(instance: Session, **_signal: object) -> None:
    """Stop the warm-up of a chapter whose rows are removed, as by a reset."""
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
    """Suppress the errors of the block, because the prompt itself will report the same errors."""
    try:
        yield
    except (ProviderError, ChapterError, DatabaseError):
        pass
    except Exception as error:  # noqa: BLE001  (nobody asks for the result of this task)
        logger.error("reading ahead met an error of the program:\n%s", traceback_of(error))


async def _warm(session_id: uuid.UUID, agent_slot: int | None) -> None:
    with _losing_no_more_than_a_head_start():
        model = await in_database(lambda: writer_of(answer_to(get_chapter(session_id), agent_slot)))
        await warm_model(model.agent, session_id, lambda: _compose_start(session_id, agent_slot))


def _compose_start(session_id: uuid.UUID, agent_slot: int | None) -> Sequence[Layer]:
    """Compose the start of the next request. Raises WrongState if no prompt can be sent now."""
    chapter = get_chapter(session_id)
    if chapter.state not in PLAYABLE or chapter.is_ending or chapter.turn_in_flight is not None:
        raise WrongState("There is nothing to read ahead for: no prompt can be sent now.")
    return compose_start(chapter, agent_slot)
