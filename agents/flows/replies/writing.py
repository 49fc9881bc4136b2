"""Writes the reply of a stored attempt to its end, in a task of its own."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import Error as DatabaseError

from agents.calling.admission import give_back
from agents.calling.calls import Reply
from agents.calling.prepared_calls import PreparedCall
from agents.calling.tool_steps import Step, ToolWriting
from agents.flows.replies.continuing import write_whole
from agents.flows.replies.finishing import commit_reply, leave_ended
from agents.flows.replies.incoming_text import FinishedReply, ReplyReader, ShownReply, reader_of
from agents.flows.replies.model_waiting import Later
from agents.flows.replies.second_tries import DECLINED, ONCE_MORE, ask_once_more, not_declined
from agents.flows.replies.warmup import settle_warmup
from agents.llm.providers.failures.call_errors import ModelDeclined, ProviderError
from agents.modes.registry import check_changes
from agents.prompting.cleaning.declining import is_refusal
from agents.running.claims import keep_claim
from agents.running.database import in_database, in_database_patiently
from agents.running.live import LIVE_REPLIES, LiveReply, ReplyEnded, StepChanges
from agents.running.relay import relay_words
from agents.running.unforeseen import ProgramFailed, traceback_of
from sessions.exceptions import ChapterError
from sessions.models import Attempt, Change
from sessions.play.breaking import (
    INTERRUPTED,
    KEPT,
    extend_broken_text,
    fail_attempt,
    fail_without_text,
)
from sessions.play.played_world import NewChange, store_changes
from sessions.storage import describe

logger = logging.getLogger(__name__)


# How a reply is written: by one call, which was counted beforehand, or in several steps, each of
# which checks and counts its own call.
Writing = PreparedCall | ToolWriting


# A writing, or one that waits for the embedded model, or the error by which the attempt fails.
Begun = Writing | Later[Writing] | Exception


class _EndedElsewhere(Exception):
    """The run may no longer write to its attempt, because another process has ended the attempt."""


async def write_reply(attempt: Attempt, writing: Begun, live: LiveReply) -> None:
    """Write the reply and end the attempt. If the database cannot be reached, the attempt ends when
    its lease runs out."""
    try:
        relay_words(attempt.run_id, live)
        await _write_or_fail(attempt, writing, live)
    except DatabaseError as error:
        logger.error("attempt %s: the database failed: %s", attempt.pk, describe(error))
    except Exception as error:  # noqa: BLE001  (nobody asks for the result of this task)
        await _fail_unforeseen(attempt, live, error)
    finally:
        if LIVE_REPLIES.get(attempt.pk) is live:
            del LIVE_REPLIES[attempt.pk]
        live.finish()


async def _write_or_fail(attempt: Attempt, writing: Begun, live: LiveReply) -> None:
    """Write and commit the reply, or fail the attempt. May raise DatabaseError."""
    try:
        with keep_claim(attempt, live):
            if isinstance(writing, Exception):
                raise writing
            if isinstance(writing, Later):
                writing = await writing.when_ready()
            with _admitted(writing):
                await _write_and_commit(attempt, writing, live)
    except ModelDeclined as declined:
        live.replace("", f"{DECLINED}.")
        error, kind = str(declined), type(declined).__name__
        await in_database_patiently(fail_without_text, attempt, error=error, kind=kind)
    except (ProviderError, ChapterError) as error:
        live.refusal = error if isinstance(error, ChapterError) else None
        await in_database_patiently(
            fail_attempt,
            attempt,
            error=str(error),
            partial_text=live.text,
            server_said=error.said if isinstance(error, ProviderError) else "",
            kind=type(error).__name__,
        )
    except _EndedElsewhere:
        await in_database_patiently(leave_ended, attempt, live.text)
    except asyncio.CancelledError:
        await in_database(_settle_cancelled, attempt, live.text)
        raise


@contextmanager
def _admitted(writing: Writing) -> Iterator[None]:
    """Give the call of the reply back if it was not sent. Steps admit their own calls."""
    try:
        yield
    finally:
        if isinstance(writing, PreparedCall):
            give_back(writing.admission)


async def _write_and_commit(attempt: Attempt, writing: Writing, live: LiveReply) -> None:
    if not attempt.is_trial:
        await settle_warmup(attempt.session_id, attempt.actor)
    text = await _write(attempt, writing, live)
    if events := await in_database_patiently(commit_reply, attempt, text):
        live.committed = ReplyEnded(attempt, events=events)


async def _write(attempt: Attempt, writing: Writing, live: LiveReply) -> str:
    """Write the reply, and return its text. `attempt` then says how the reply has ended."""
    reader = await in_database_patiently(reader_of, attempt)
    finished = await _write_once(attempt, writing, reader, live)
    if isinstance(writing, PreparedCall):
        finished = await ask_once_more(writing, attempt, finished, reader, live)
    elif reader.is_small and not writing.has_changes and is_refusal(finished.text):
        live.replace("", f"{DECLINED}, {ONCE_MORE}")
        second = await _write_once(attempt, writing.anew(), reader.new(), live)
        finished = not_declined(second, reader, tries=2)
    else:
        finished = not_declined(finished, reader, tries=1)
    attempt.ended_before, attempt.was_cut = finished.ended_before, finished.was_cut
    return finished.text


async def _write_once(
    attempt: Attempt, writing: Writing, reader: ReplyReader, live: LiveReply
) -> FinishedReply:
    try:
        reply = await _call(attempt, writing, ShownReply(reader, live))
    finally:
        # Even if the reply broke off, the text that was held back is shown.
        reader.show_rest(live.append)
    return reader.finish(reply)


async def _call(
    attempt: Attempt,
    writing: Writing,
    shown: ShownReply,
) -> Reply:
    if isinstance(writing, PreparedCall):
        return await write_whole(writing, shown)

    said: list[str] = []

    async def store(step: Step) -> None:
        said.append(step.text)
        after_chars = shown.reader.chars_of("".join(said)) if step.changes else 0
        stored = await in_database_patiently(_store_step, attempt, step, after_chars)
        if stored is None:
            raise _EndedElsewhere
        if stored:
            shown.live.append(StepChanges(step.number, stored))

    return await writing.write(on_text=shown.show, here=shown.here, on_step=store)


def _store_step(attempt: Attempt, step: Step, after_chars: int) -> list[Change] | None:
    """Store the changes of the step, and return them. Returns None if the run may no longer
    write."""
    changes = [
        NewChange(
            change.kind,
            change.payload,
            cause=run.call.name,
            step=change.step,
            after_chars=after_chars,
        )
        for run in step.runs
        for change in run.changes
    ]
    if not changes:
        return []
    if not store_changes(attempt, check_changes(attempt.session, changes)):
        return None
    # The changes are read back, because the number of a person who appears is known only now.
    of_step = attempt.changes.filter(run_id=attempt.run_id, step=step.number)
    return list(of_step.order_by("position"))


async def _fail_unforeseen(attempt: Attempt, live: LiveReply, error: Exception) -> None:
    failed = ProgramFailed(error, KEPT)
    kind = type(failed).__name__
    try:
        logger.error("attempt %s met an error of the program:\n%s", attempt.pk, traceback_of(error))
        await in_database_patiently(
            fail_attempt, attempt, error=str(failed), partial_text=live.text, kind=kind
        )
    except Exception as again:  # noqa: BLE001  (its lease runs out, and the stored text is kept)
        logger.error("attempt %s could not be ended: %s", attempt.pk, type(again).__name__)


def _settle_cancelled(attempt: Attempt, text: str) -> None:
    """Store the text so far of a reply that a stop or the end of the process cancelled."""
    if not fail_attempt(attempt, error=INTERRUPTED, partial_text=text):
        extend_broken_text(attempt, text)
