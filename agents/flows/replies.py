"""Writes replies: stores the attempt, and starts a separate task that writes the whole reply."""

import asyncio
import contextvars
import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from django.db import Error as DatabaseError
from django.db import transaction

from agents.calling.admission import give_back
from agents.calling.calls import Reply, let_through
from agents.calling.model_access import is_on_its_way
from agents.calling.prepared_calls import PreparedCall, prepare_call
from agents.calling.tool_steps import Step, ToolWriting
from agents.flows.committing import SUMMARY_PAUSE_SECONDS, commit_reply, leave_ended
from agents.flows.composing import compose_question, compose_reply, cues_of
from agents.flows.continuing import write_whole
from agents.flows.late_results import follow_up_latest_turn, take_waiting_results
from agents.flows.model_waiting import Later
from agents.flows.reply_texts import ReplyReader, reader_of
from agents.flows.second_replies import ask_once_more
from agents.flows.summarizing import queue_due_summary
from agents.flows.warmup import settle_warmup, warm_next_reply
from agents.mode_fields import given_to_store
from agents.modes import agent_of, check_changes, mode_of, who_answers
from agents.prompting.layers import Layer
from agents.providers.exceptions import ProviderError
from agents.running.claims import keep_claim
from agents.running.database import in_database, in_database_patiently
from agents.running.live import LIVE_REPLIES, LiveReply, ReplyEnded, StepChanges
from agents.running.relay import relay_words, tell_of_stop
from agents.running.unforeseen import ProgramFailed, traceback_of
from agents.servers.choices import refresh_choices
from agents.storage import describe
from sessions.access import get_chapter
from sessions.attempts import (
    Answers,
    Everybody,
    OpenedAttempt,
    broken_attempt,
    open_prompt,
    open_reroll,
    running_attempt,
    start_keeping,
)
from sessions.breaking import INTERRUPTED, KEPT, extend_broken_text, fail_attempt, stop_attempt
from sessions.exceptions import ChapterError, WrongState
from sessions.log_lines import current_ids, go_on_working_for
from sessions.models import Attempt, Change
from sessions.world import NewChange, room_for_changes, store_changes

logger = logging.getLogger(__name__)

# When a job ends, it waits at most this many seconds until the text so far of its reply is stored.
_BREAKING_OFF_SECONDS = 5.0

# The tasks that write replies. The set keeps them alive, because Python may delete a running task
# to which nothing refers.
_at_work: set["asyncio.Task[None]"] = set()

Open = Callable[[], OpenedAttempt]
Prepare = Callable[[Attempt], PreparedCall]
# A function that composes the request of an agent with tools. It is called again for each step.
ComposeStep = Callable[[Attempt], list[Layer]]
# How a reply is written: by one call, which was counted beforehand, or in several steps, each of
# which checks and counts its own call.
Writing = PreparedCall | ToolWriting
# A writing, or one that waits for the embedded model, or the error by which the attempt fails.
Begun = Writing | Later[Writing] | Exception


class _EndedElsewhere(Exception):
    """The run may no longer write to its attempt, because another process has ended the attempt."""


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
        await _write_reply(attempt, writing, live)
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
        take_waiting_results(attempt)
        _store_first_changes(attempt)
        begin = partial(_begin_writing, attempt, prepare, compose_step)
        if is_on_its_way(agent := agent_of(attempt)):
            return opened, Later(agent, begin)
        return opened, begin()
    except DatabaseError:
        fail_attempt(attempt, error=INTERRUPTED, partial_text="")
        raise
    except Exception as error:  # noqa: BLE001  (raised again where the attempt is ended by it)
        return opened, error


def _begin_writing(attempt: Attempt, prepare: Prepare, compose_step: ComposeStep) -> Writing:
    if agent_of(attempt).tools:
        return _in_steps(attempt, compose_step)
    return let_through(attempt.session_id, partial(prepare, attempt))


def _store_first_changes(attempt: Attempt) -> None:
    """Store what the mode changes before the first step, such as the time that a prompt takes."""
    if changes := mode_of(attempt.session).begins(attempt):
        store_changes(attempt, check_changes(attempt.session, changes))


def _prepare(attempt: Attempt) -> PreparedCall:
    return prepare_call(
        agent_of(attempt),
        attempt.session_id,
        partial(compose_reply, attempt),
        stop=cues_of(attempt),
        attempt_id=attempt.pk,
    )


def _in_steps(attempt: Attempt, compose: ComposeStep) -> ToolWriting:
    return ToolWriting(
        agent_of(attempt),
        attempt.session_id,
        partial(compose, attempt),
        partial(mode_of(attempt.session).readable, attempt),
        reader=attempt.actor,
        attempt_id=attempt.pk,
        stop=cues_of(attempt),
        compose_question=partial(compose_question, attempt),
        most_changes=room_for_changes(attempt),
    )


async def _write_reply(attempt: Attempt, writing: Begun, live: LiveReply) -> None:
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
    except (ProviderError, ChapterError) as error:
        live.refusal = error if isinstance(error, ChapterError) else None
        await in_database_patiently(
            fail_attempt,
            attempt,
            error=str(error),
            partial_text=live.text,
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

    def show(piece: str) -> None:
        reader.show(piece, live.append)

    try:
        reply = await _call(attempt, writing, reader, show, live)
    finally:
        # Even if the reply broke off, the text that was held back is shown.
        reader.show_rest(live.append)
    finished = reader.finish(reply)
    if isinstance(writing, PreparedCall):
        finished = await ask_once_more(writing, attempt, finished, reader, live)
    attempt.ended_before, attempt.was_cut = finished.ended_before, finished.was_cut
    return finished.text


async def _call(
    attempt: Attempt,
    writing: Writing,
    reader: ReplyReader,
    show: Callable[[str], None],
    live: LiveReply,
) -> Reply:
    if isinstance(writing, PreparedCall):
        return await write_whole(writing, reader, show)

    said: list[str] = []

    async def store(step: Step) -> None:
        said.append(step.text)
        after_chars = reader.chars_of("".join(said)) if step.changes else 0
        stored = await in_database_patiently(_store_step, attempt, step, after_chars)
        if stored is None:
            raise _EndedElsewhere
        if stored:
            live.append(StepChanges(step.number, stored))

    return await writing.write(on_text=show, on_step=store)


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
