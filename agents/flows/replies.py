"""A character's reply: stored as a turn first, written by a task of its own, committed whole."""

import asyncio
import contextvars
import logging
import uuid
from collections.abc import Callable
from functools import partial

from django.db import Error as DatabaseError
from django.db import transaction

from agents.calling.calls import PreparedCall, Reply, let_reply_through, make_call, prepare_call
from agents.calling.model_access import is_small_model
from agents.calling.rates import reply_is_over
from agents.flows.characters import agent_of, compose_reply, others_cues, read_ahead
from agents.flows.summarizing import (
    give_notice_of_waiting_summaries,
    queue_due_summary,
    restart_summary_of,
)
from agents.flows.warmup import settle_warmup, warm_next_reply
from agents.prompting.prose import end_at_sentence, without_heading
from agents.providers.exceptions import ProviderError
from agents.running.claims import keep_claim
from agents.running.database import in_database, in_database_patiently
from agents.running.live import LIVE_REPLIES, LiveReply, ReplyEnded
from agents.running.unforeseen import ProgramFailed, traceback_of
from agents.storage import describe
from sessions.access import get_chapter
from sessions.exceptions import ChapterError, WrongState
from sessions.log_lines import current_ids, go_on_working_for
from sessions.models import Event, Turn
from sessions.turns import (
    INTERRUPTED,
    KEPT,
    OpenedTurn,
    broken_turn,
    commit_turn,
    extend_broken_text,
    fail_turn,
    open_prompt,
    open_reroll,
    running_turn,
    stop_turn,
    take_broken_text,
)

logger = logging.getLogger(__name__)

# A prompt or a re-roll may follow a reply at once: the summary that the reply made due, which
# nobody waits for, would take the machine just then.
_SUMMARY_PAUSE_SECONDS = 1.0

# The event loop itself keeps no task alive.
_at_work: set["asyncio.Task[None]"] = set()


async def start_prompt(
    session_id: uuid.UUID, *, agent_slot: int, user_text: str, submission_key: str
) -> OpenedTurn:
    """Store the GM's prompt and start the reply in this process; see `open_prompt`."""
    return await _store_and_start(
        lambda: open_prompt(
            session_id,
            agent_slot=agent_slot,
            user_text=user_text,
            submission_key=submission_key,
        )
    )


async def start_reroll(session_id: uuid.UUID, *, submission_key: str) -> OpenedTurn:
    """Write the latest reply again; a summary of its prompt that is being written starts over."""
    return await _store_and_start(lambda: _open_reroll(session_id, submission_key))


async def stop_reply(session_id: uuid.UUID) -> Turn:
    """End the running reply; its text so far waits for the GM to keep it or retry."""
    turn = await in_database(lambda: running_turn(get_chapter(session_id)))
    live = LIVE_REPLIES.get(turn.turn_id)
    await in_database(stop_turn, turn, partial_text=live.text if live else None)
    if live is not None and live.task is not None:
        live.task.cancel()
    await in_database(turn.refresh_from_db)
    return turn


async def end_replies(seconds: float) -> None:
    """Break off the replies that this process writes, and store their words so far: it ends."""
    for task in _at_work:
        task.cancel()
    if _at_work:
        await asyncio.wait(_at_work, timeout=seconds)


def keep_reply(session_id: uuid.UUID) -> Turn:
    """Make the text of a stopped or broken reply the reply."""
    with transaction.atomic():
        turn = take_broken_text(broken_turn(get_chapter(session_id)))
        if _commit(turn, turn.partial_text) is None:
            raise WrongState("The chapter changed meanwhile; the text is still there. Try again.")
    turn.refresh_from_db()
    return turn


def adopt_reply(
    session_id: uuid.UUID, *, prompt_index: int, text: str, submission_key: str
) -> Turn:
    """Make a text that was written beside play the reply: a re-roll that calls no model.

    Sent again under the same key it is the same turn. Raises what a re-roll raises, and WrongState
    once play has gone on from this prompt.
    """
    with transaction.atomic():
        opened = _open_reroll(session_id, submission_key)
        turn = opened.turn
        if opened.must_run:
            if turn.prompt_index != prompt_index:
                raise WrongState("Play has gone on meanwhile, so this reply cannot be used.")
            if _commit(turn, text) is None:
                raise WrongState("The chapter changed meanwhile. Try again.")
    turn.refresh_from_db()
    return turn


def finished_text(agent_slot: int, reply: Reply) -> str:
    """A small model seldom ends by itself, so that its last sentence may be half a one."""
    if not is_small_model(agent_slot):
        return reply.text
    text = without_heading(reply.text)
    return end_at_sentence(text) if reply.was_cut else text


def _open_reroll(session_id: uuid.UUID, submission_key: str) -> OpenedTurn:
    with transaction.atomic():
        opened = open_reroll(session_id, submission_key=submission_key)
        if opened.must_run and opened.turn.prompt_index:
            restart_summary_of(session_id, opened.turn.prompt_index)
        return opened


async def _store_and_start(open_turn: Callable[[], OpenedTurn]) -> OpenedTurn:
    """The stored turn, whose reply is being written by a task of its own, which finishes also when
    the client leaves meanwhile."""
    stored: asyncio.Future[OpenedTurn] = asyncio.get_running_loop().create_future()
    # An empty context: the reply must not share the request's thread, which ends with it.
    context = contextvars.Context()
    context.run(go_on_working_for, **current_ids())
    task = asyncio.create_task(_store_and_write(open_turn, stored), context=context)
    _at_work.add(task)
    task.add_done_callback(_at_work.discard)
    return await stored


async def _store_and_write(
    open_turn: Callable[[], OpenedTurn], stored: "asyncio.Future[OpenedTurn]"
) -> None:
    """One task for both: a new one for the reply would wait for its turn among all the others."""
    try:
        opened, call = await in_database(_open_and_prepare, open_turn)
    except asyncio.CancelledError:
        stored.cancel()
        raise
    except Exception as error:  # noqa: BLE001  (raised again where it is waited for)
        if not stored.done():
            stored.set_exception(error)
        return
    turn, live = opened.turn, LiveReply(task=asyncio.current_task())
    if call is not None:
        LIVE_REPLIES[turn.turn_id] = live
    if not stored.done():
        stored.set_result(opened)
    if call is not None:
        go_on_working_for(session_id=turn.session_id, turn_id=turn.pk)
        await _write_reply(turn, call, live)


def _open_and_prepare(
    open_turn: Callable[[], OpenedTurn],
) -> tuple[OpenedTurn, PreparedCall | Exception | None]:
    """The stored turn with its call, or with the error that ends it; None when it was answered.

    Raises DatabaseError, once the turn is failed.
    """
    opened = open_turn()
    if not opened.must_run:
        return opened, None
    turn = opened.turn
    try:
        return opened, let_reply_through(turn.session_id, partial(_prepare, turn))
    except DatabaseError:
        fail_turn(turn, error=INTERRUPTED, partial_text="")
        raise
    except Exception as error:  # noqa: BLE001  (raised again where the turn is ended by it)
        return opened, error


def _prepare(turn: Turn) -> PreparedCall:
    return prepare_call(
        agent_of(turn),
        turn.session_id,
        partial(compose_reply, turn),
        stop=others_cues(turn),
        turn_id=turn.pk,
    )


async def _write_reply(turn: Turn, call: PreparedCall | Exception, live: LiveReply) -> None:
    """However it ends, the turn ends with it; where the database is away, with its lease."""
    try:
        await _write_or_fail(turn, call, live)
    except DatabaseError as error:
        logger.error("turn %s: the database failed: %s", turn.pk, describe(error))
    except Exception as error:  # noqa: BLE001  (nobody asks for the result of this task)
        await _fail_unforeseen(turn, live, error)
    finally:
        if isinstance(call, PreparedCall):
            reply_is_over(turn.session_id)
        if LIVE_REPLIES.get(turn.turn_id) is live:
            del LIVE_REPLIES[turn.turn_id]
        live.finish()
    await warm_next_reply(turn.session_id)


async def _write_or_fail(turn: Turn, call: PreparedCall | Exception, live: LiveReply) -> None:
    """Raises what nobody foresaw, and DatabaseError."""
    try:
        with keep_claim(turn, live):
            if not isinstance(call, PreparedCall):
                raise call
            await settle_warmup(turn.session_id, turn.agent_slot)
            reply = await make_call(call, on_text=live.append)
            text = finished_text(turn.agent_slot, reply)
            if events := await in_database_patiently(_commit, turn, text):
                is_all = turn.kind == Turn.Kind.PROMPT
                live.committed = ReplyEnded(turn, events=events if is_all else ())
    except (ProviderError, ChapterError) as error:
        live.refusal = error if isinstance(error, ChapterError) else None
        await in_database_patiently(
            fail_turn, turn, error=str(error), partial_text=live.text, kind=type(error).__name__
        )
    except asyncio.CancelledError:
        await in_database(_settle_cancelled, turn, live.text)
        raise


async def _fail_unforeseen(turn: Turn, live: LiveReply, error: Exception) -> None:
    failed = ProgramFailed(error, KEPT)
    kind = type(failed).__name__
    try:
        logger.error("turn %s met an error of the program:\n%s", turn.pk, traceback_of(error))
        await in_database_patiently(
            fail_turn, turn, error=str(failed), partial_text=live.text, kind=kind
        )
    except Exception as again:  # noqa: BLE001  (its lease runs out, and the flushed text is kept)
        logger.error("turn %s could not be ended: %s", turn.pk, type(again).__name__)


def _settle_cancelled(turn: Turn, text: str) -> None:
    """After a stop, add what came since the last flush; otherwise the process is shutting down."""
    if not fail_turn(turn, error=INTERRUPTED, partial_text=text):
        extend_broken_text(turn, text)


@transaction.atomic
def _commit(turn: Turn, text: str) -> list[Event] | None:
    """Write the turn's Events and, in the same transaction, the job that a full chunk asks for."""
    events = commit_turn(turn, text)
    if events is None:
        logger.info("turn %s ended elsewhere; its reply is not committed", turn.turn_id)
        extend_broken_text(turn, text)
        return None
    queue_due_summary(turn.session, notice_after=_SUMMARY_PAUSE_SECONDS)
    if turn.kind == Turn.Kind.REROLL:
        give_notice_of_waiting_summaries(turn.session_id, notice_after=_SUMMARY_PAUSE_SECONDS)
    transaction.on_commit(lambda: read_ahead(turn.session), robust=True)
    return events
