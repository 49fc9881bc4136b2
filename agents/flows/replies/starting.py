"""Writes replies: stores the attempt, and starts a separate task that writes the whole reply."""

import asyncio
import contextvars
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django.db import Error as DatabaseError
from django.db import transaction

from agents.calling.calls import let_through
from agents.calling.prepared_calls import PreparedCall, prepare_call
from agents.calling.servers.choices import refresh_choices
from agents.calling.tool_steps import ToolWriting
from agents.flows.remembering.late_results import follow_up_latest_turn, take_waiting_results
from agents.flows.remembering.summarizing import queue_due_summary
from agents.flows.replies.composing import (
    compose_question,
    compose_reply,
    cues_of,
    grammar_of,
    writer_of,
)
from agents.flows.replies.finishing import SUMMARY_PAUSE_SECONDS, commit_reply
from agents.flows.replies.incoming_text import reader_of
from agents.flows.replies.model_waiting import Later
from agents.flows.replies.warmup import warm_next_reply
from agents.flows.replies.writing import Begun, Writing, write_reply
from agents.modes.fields import given_to_store, keep_fields
from agents.modes.registry import check_changes, mode_of, who_answers
from agents.prompting.layers import Layer
from agents.running.database import in_database
from agents.running.live import LIVE_REPLIES, LiveReply
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
from sessions.play.breaking import INTERRUPTED, fail_attempt, stop_attempt
from sessions.play.played_world import room_for_changes, store_changes
from sessions.play.unfinished_attempts import broken_attempt, running_attempt

# When a job ends, it waits at most this many seconds until the text so far of its reply is stored.
_BREAKING_OFF_SECONDS = 5.0

# The tasks that write replies. The set keeps them alive, because Python may delete a running task
# to which nothing refers.
_at_work: set["asyncio.Task[None]"] = set()

Open = Callable[[], OpenedAttempt]
Prepare = Callable[[Attempt], PreparedCall]
# A function that composes the request of an agent with tools. It is called again for each step.
ComposeStep = Callable[[Attempt], list[Layer]]


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
    return await store_and_start(
        partial(
            store_prompt,
            session_id,
            actor=actor,
            words=words,
            submission_key=submission_key,
            witnesses=witnesses,
            given=given,
        ),
        _prepare,
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
    return await store_and_start(
        partial(
            _open_reroll,
            session_id,
            submission_key=submission_key,
            number=number,
            actor=actor,
            words=words,
            witnesses=witnesses,
            given=given,
        ),
        _prepare,
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
        text = reader_of(attempt).kept(attempt.partial_text)
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
    # If the GM has accepted calls by which memory catches up, each commit asks for one of them, so
    # the prompt asks for no memory.
    if opened.must_run:
        follow_up_latest_turn(chapter)
    if opened.must_run and not chapter.accepted_calls:
        queue_due_summary(chapter, notice_after=SUMMARY_PAUSE_SECONDS)
    return opened


async def store_and_start(
    open_attempt: Open,
    prepare: Prepare,
    *,
    compose_step: ComposeStep = compose_reply,
    is_in_worker: bool = False,
) -> OpenedAttempt:
    """Store an attempt, and start a task that writes it.

    The task continues if the client disconnects. `prepare` returns the call of an agent without
    tools. `compose_step` returns the request for each step of an agent with tools. In a worker, the
    model is not warmed up afterwards.
    """
    stored: asyncio.Future[OpenedAttempt] = asyncio.get_running_loop().create_future()
    # The task gets an empty context, because it would otherwise use the thread of the request,
    # which ends with the request.
    context = contextvars.Context()
    context.run(go_on_working_for, **current_ids())
    task = asyncio.create_task(
        _store_and_write(
            partial(_open_and_prepare, open_attempt, prepare, compose_step), stored, is_in_worker
        ),
        context=context,
    )
    _at_work.add(task)
    task.add_done_callback(_at_work.discard)
    return await stored


async def _store_and_write(
    open_and_prepare: Callable[[], tuple[OpenedAttempt, Begun | None]],
    stored: "asyncio.Future[OpenedAttempt]",
    is_in_worker: bool,
) -> None:
    """Store and write an attempt in one task, because a second task could begin only after the
    event loop has run all other tasks."""
    try:
        opened, writing = await in_database(open_and_prepare)
    except asyncio.CancelledError:
        stored.cancel()
        raise
    except Exception as error:  # noqa: BLE001  (raised again where it is waited for)
        if not stored.done():
            stored.set_exception(error)
        return
    attempt, live = opened.attempt, LiveReply(task=asyncio.current_task())
    if writing is not None:
        LIVE_REPLIES[attempt.pk] = live
    if not stored.done():
        stored.set_result(opened)
    if writing is not None:
        go_on_working_for(session_id=attempt.session_id, attempt_id=attempt.pk)
        await write_reply(attempt, writing, live)
        if not (attempt.is_trial or is_in_worker):
            await warm_next_reply(attempt.session_id)


async def write_to_end(open_attempt: Open) -> None:
    """Store an attempt and write it in a worker, and wait until the attempt has ended.

    If the waiting task is cancelled, the reply is broken off, and its text so far is stored.
    """
    try:
        await store_and_start(open_attempt, _prepare, is_in_worker=True)
        if tasks := _tasks_of_this_loop():
            await asyncio.wait(tasks)
    except asyncio.CancelledError:
        await end_replies(_BREAKING_OFF_SECONDS)
        raise


def _open_and_prepare(
    open_attempt: Open, prepare: Prepare, compose_step: ComposeStep
) -> tuple[OpenedAttempt, Begun | None]:
    """Store the attempt, and return it with the call or the steps that write it.

    The second value may also wait for the model, or be an error, by which the attempt fails. It is
    None if the attempt need not run. If the database fails after the attempt was stored, fail the
    attempt and raise DatabaseError.
    """
    refresh_choices()
    opened = open_attempt()
    if not opened.must_run:
        return opened, None
    attempt = opened.attempt
    try:
        keep_fields(attempt)
        take_waiting_results(attempt)
        _store_first_changes(attempt)
        begin = partial(_begin_writing, attempt, prepare, compose_step)
        if (model := writer_of(attempt)).is_on_its_way:
            return opened, Later(model, begin)
        return opened, begin()
    except DatabaseError:
        fail_attempt(attempt, error=INTERRUPTED, partial_text="")
        raise
    except Exception as error:  # noqa: BLE001  (raised again where the attempt is ended by it)
        return opened, error


def _begin_writing(attempt: Attempt, prepare: Prepare, compose_step: ComposeStep) -> Writing:
    if writer_of(attempt).agent.tools:
        return _in_steps(attempt, compose_step)
    return let_through(attempt.session_id, partial(prepare, attempt))


def _store_first_changes(attempt: Attempt) -> None:
    """Store what the mode changes before the first step, such as the time that a prompt takes."""
    if changes := mode_of(attempt.session).begins(attempt):
        store_changes(attempt, check_changes(attempt.session, changes))


def _prepare(attempt: Attempt) -> PreparedCall:
    model = writer_of(attempt)
    return prepare_call(
        model,
        attempt.session_id,
        partial(compose_reply, attempt, model),
        stop=cues_of(attempt),
        grammar=grammar_of(attempt, model.agent),
        attempt_id=attempt.pk,
    )


def _in_steps(attempt: Attempt, compose: ComposeStep) -> ToolWriting:
    return ToolWriting(
        writer_of(attempt).agent,
        attempt.session_id,
        partial(compose, attempt),
        partial(mode_of(attempt.session).readable, attempt),
        reader=attempt.actor,
        attempt_id=attempt.pk,
        stop=cues_of(attempt),
        compose_question=partial(compose_question, attempt),
        most_changes=room_for_changes(attempt),
    )
