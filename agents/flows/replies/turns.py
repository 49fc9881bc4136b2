"""Starts, stops and keeps the replies of turns. A task of its own writes each reply."""

import asyncio
import contextvars
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

from django.db import transaction

from agents.flows.remembering.late_results import follow_up_latest_turn
from agents.flows.remembering.summarizing import queue_due_summary
from agents.flows.replies.composing import writer_of
from agents.flows.replies.finishing import SUMMARY_PAUSE_SECONDS, commit_reply
from agents.flows.replies.incoming_text import reader_of
from agents.flows.replies.writing import ReplyRun, Store
from agents.modes.fields import given_to_store
from agents.modes.registry import who_answers
from agents.running.database import in_database
from agents.running.live import LIVE_REPLIES
from agents.running.relay import tell_of_stop
from sessions.chapter.access import get_chapter
from sessions.exceptions import WrongState
from sessions.log_lines import current_ids, go_on_working_for
from sessions.models import Attempt
from sessions.play.attempts import (
    Answers,
    Everybody,
    OpenedAttempt,
    open_prompt,
    open_reroll,
    start_keeping,
)
from sessions.play.breaking import broken_attempt, running_attempt, stop_attempt

# When a job ends, it waits at most this many seconds until the text so far of its reply is stored.
_BREAKING_OFF_SECONDS = 5.0

# The tasks that write replies. The set keeps them alive, because Python may delete a running task
# that nothing refers to.
_at_work: set["asyncio.Task[None]"] = set()


async def start_prompt(
    session_id: uuid.UUID,
    *,
    actor: int | None,
    words: str,
    submission_key: str,
    witnesses: Sequence[int] | None = None,
    given: dict[str, Any] | None = None,
) -> OpenedAttempt:
    """Store the user's prompt by `open_prompt`, and start to write the reply in this process."""
    return await run_reply(
        partial(
            store_prompt,
            session_id,
            actor=actor,
            words=words,
            submission_key=submission_key,
            witnesses=witnesses,
            given=given,
        )
    )


async def start_reroll(
    session_id: uuid.UUID,
    *,
    submission_key: str,
    number: int | None = None,
    actor: int | None = None,
    words: str | None = None,
    witnesses: Sequence[int] | Everybody | None = None,
    given: dict[str, Any] | None = None,
) -> OpenedAttempt:
    """Store a re-roll by `open_reroll`, and start to write its reply in this process."""
    return await run_reply(
        partial(
            _open_reroll,
            session_id,
            submission_key=submission_key,
            number=number,
            actor=actor,
            words=words,
            witnesses=witnesses,
            given=given,
        )
    )


async def stop_reply(session_id: uuid.UUID) -> Attempt:
    """Stop the running reply. The user can keep its text so far, or retry the prompt."""
    attempt = await in_database(lambda: running_attempt(get_chapter(session_id)))
    return await stop_running(attempt)


async def stop_running(attempt: Attempt) -> Attempt:
    """Stop the run of the attempt, even if another process is writing the attempt."""
    live = LIVE_REPLIES.get(attempt.pk)
    await in_database(stop_attempt, attempt, partial_text=live.text if live else "")
    if live is None:
        await tell_of_stop(attempt.run_id)
    elif live.task is not None:
        live.task.cancel()
    await in_database(attempt.refresh_from_db)
    return attempt


async def end_replies(seconds: float) -> None:
    """Break off the replies that this event loop writes, because its process or its job ends.

    The text so far of each reply is stored. The function waits for this at most `seconds`.
    """
    if tasks := _tasks_of_this_loop():
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=seconds)


def _tasks_of_this_loop() -> "list[asyncio.Task[None]]":
    # Only tasks of this event loop are returned, because each job has an event loop of its own in
    # its own thread.
    loop = asyncio.get_running_loop()
    return [task for task in list(_at_work) if task.get_loop() is loop]


def keep_reply(session_id: uuid.UUID) -> Attempt:
    """Commit the text of the broken attempt as its reply. Raises WrongState if the text cannot be
    kept."""
    with transaction.atomic():
        attempt = start_keeping(broken_attempt(get_chapter(session_id)))
        text = reader_of(attempt, writer_of(attempt)).kept(attempt.partial_text)
        if commit_reply(attempt, text, is_kept=True) is None:
            raise WrongState("The chapter changed meanwhile; the text is still there. Try again.")
    attempt.refresh_from_db()
    return attempt


def _open_reroll(
    session_id: uuid.UUID, *, given: dict[str, Any] | None, **sent: Any
) -> OpenedAttempt:
    given = given_to_store(session_id, given)
    return open_reroll(session_id, given=given, answers=who_answers, **sent)


@transaction.atomic
def store_prompt(
    session_id: uuid.UUID,
    *,
    given: dict[str, Any] | None = None,
    answers: Answers = who_answers,
    **sent: Any,
) -> OpenedAttempt:
    """Store the prompt. Then ask for the memory, the late results and the mode's own blocks that
    are missing after a choice or an import."""
    given = given_to_store(session_id, given)
    opened = open_prompt(session_id, given=given, answers=answers, **sent)
    chapter = opened.attempt.session
    # If the GM has accepted the calls that memory needs to catch up, each commit asks for one of
    # them, so the prompt asks for no memory.
    if opened.must_run:
        follow_up_latest_turn(chapter)
    if opened.must_run and not chapter.accepted_calls:
        queue_due_summary(chapter, notice_after=SUMMARY_PAUSE_SECONDS)
    return opened


async def run_reply(store: Store, *, is_in_worker: bool = False) -> OpenedAttempt:
    """Start a task that stores an attempt and writes its reply, and return the stored attempt once
    its request is prepared.

    The task continues if the client disconnects.
    """
    stored: asyncio.Future[OpenedAttempt] = asyncio.get_running_loop().create_future()
    # The task gets an empty context, because it would otherwise use the thread of the request,
    # which ends with the request.
    context = contextvars.Context()
    context.run(go_on_working_for, **current_ids())
    task = asyncio.create_task(ReplyRun(store, is_in_worker).to_end(stored), context=context)
    _at_work.add(task)
    task.add_done_callback(_at_work.discard)
    return await stored


async def write_to_end(store: Store) -> None:
    """Store an attempt and write it in a worker, and wait until the attempt has ended.

    If the waiting task is cancelled, the reply is broken off, and its text so far is stored.
    """
    try:
        await run_reply(store, is_in_worker=True)
        if tasks := _tasks_of_this_loop():
            await asyncio.wait(tasks)
    except asyncio.CancelledError:
        await end_replies(_BREAKING_OFF_SECONDS)
        raise
