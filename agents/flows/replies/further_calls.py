"""Continues a reply once if the output limit cut it, and asks a small model again if its reply has
faults.

The embedded model is asked again if its reply breaks the rules of
agents.prompting.cleaning.reply_rules or has a fault that the agent's small form names, as often as
this form allows. Any small model is asked once more if it declines
(agents.prompting.cleaning.declining). Other models are not asked again, because their calls may
cost something. Each further call has a record of its own, and counts for the caps. If a
continuation cannot be made or breaks off, the reply is left cut, and `Attempt.was_cut` says so. If
another further call cannot be made or breaks off, the best reply so far is kept, unless it is a
refusal: a refusal is never stored as a part of the story.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from agents.calling.calls import Reply, let_call_through, make_prose_call
from agents.calling.prepared_calls import PreparedCall, prepare_call
from agents.flows.replies.incoming_text import FinishedReply, ReplyReader, ShownReply
from agents.llm.providers import embedded_provider
from agents.llm.providers.failures.call_errors import ModelDeclined, ProviderError
from agents.prompting.agent import Agent
from agents.prompting.cleaning.declining import is_refusal
from agents.prompting.cleaning.reply_rules import Asked, broken_rules
from agents.prompting.cleaning.seams import Seam, WholeWords, without_half_word
from agents.prompting.layers import Layer, Piece, text_layer
from agents.prompting.prompt_files import render_prompt
from agents.running.database import in_database_patiently
from agents.running.live import LiveReply
from sessions.exceptions import ChapterError
from sessions.language.text import is_blank
from sessions.models import Attempt, Event
from sessions.record.chosen_events import chosen_events

logger = logging.getLogger(__name__)

# The number of the character's last replies that a reply must not repeat.
COMPARED_REPLIES = 10
# The beginning of the note about a refusal.
DECLINED = "The model declined as a program does"
ONCE_MORE = "so the model is asked once more."


async def write_whole(call: PreparedCall, shown: ShownReply) -> Reply:
    """Make the call, and continue its reply if the output limit cut it.

    A small model is not continued, because its limit is what keeps its replies short.
    """
    reader, go_back = shown.reader, shown.here()
    if reader.is_small:
        return await make_prose_call(
            call, on_text=shown.show, on_restart=go_back, is_enough=reader.is_enough
        )
    words = WholeWords()

    def restart() -> None:
        words.end()
        go_back()

    try:
        reply = await make_prose_call(
            call, on_text=lambda piece: shown.show(words.take(piece)), on_restart=restart
        )
        if not reply.was_cut or reader.has_ended:
            return reply
        before = without_half_word(reply.text)
        more = await _continue(call, shown, before) if before.strip() else None
        if more is None:
            return reply
        # The half word at the end is left out, because the continuation brings the whole word.
        words.end()
        return Reply(before + more.text, more.was_cut)
    finally:
        shown.show(words.end())


async def _continue(call: PreparedCall, shown: ShownReply, before: str) -> Reply | None:
    """Return the text that follows `before`, or None if nothing came.

    Text that arrived before an error is kept, because it was shown and may have cost something.
    """
    try:
        following = await let_call_through(call.session_id, lambda: _prepare_next(call, before))
    except (ChapterError, ProviderError) as refusal:
        logger.warning("a reply stays cut: %s", type(refusal).__name__)
        return None
    seam, front = Seam(before), shown.reader.new_front()
    told: list[str] = []
    was_cut, go_back = True, shown.here()

    def take(text: str) -> None:
        told.append(text)
        shown.show(text)

    def restart() -> None:
        nonlocal seam, front
        seam, front = Seam(before), shown.reader.new_front()
        told.clear()
        go_back()

    try:
        more = await make_prose_call(
            following,
            on_text=lambda piece: take(seam.take(front.take(piece))),
            on_restart=restart,
        )
        was_cut = more.was_cut
    except ProviderError as error:
        logger.warning("a reply stays cut: %s", type(error).__name__)
    finally:
        take(seam.take(front.end()) + seam.end())
    text = "".join(told)
    return None if is_blank(text) else Reply(text, was_cut)


def _prepare_next(call: PreparedCall, before: str) -> PreparedCall:
    """Prepare the same call again, with the text so far as the model's own words."""
    wrote = Layer("REPLY_SO_FAR", (Piece(before.rstrip()),), role="assistant", has_heading=False)
    ask = text_layer("CONTINUE", render_prompt("reply_continue"), has_heading=False)
    prepared = prepare_call(
        call.model,
        call.session_id,
        lambda: [*call.compose(), wrote, ask],
        attempt_id=call.attempt_id,
        step=call.step + 1,
    )
    return replace(prepared, request=replace(prepared.request, continues=True))


async def ask_once_more(
    call: PreparedCall, attempt: Attempt, first: FinishedReply, reader: ReplyReader, live: LiveReply
) -> FinishedReply:
    """Return the reply with the fewest faults: `first`, or the reply of a further call.

    If `first` has no fault, or if the model is not a small one, no further call is made. The
    readers of `live` learn that the text is replaced, and why. Raises ModelDeclined if a small
    model declines twice, or if another model declines.
    """
    is_embedded = call.provider.name == embedded_provider.NAME
    is_small = is_embedded or reader.is_small
    if is_refusal(first.text, of_small_model=is_small):
        why = f"{DECLINED}, {ONCE_MORE}"
        again = replace(call, step=call.step + 1)
        second = await _second(again, why, reader, live) if is_small else None
        return not_declined(second, reader, tries=2 if second else 1)
    faults_of = _faults_of(call.model.agent, attempt, reader) if is_embedded else None
    if faults_of is None:
        return first
    best, faults = first, await in_database_patiently(faults_of, first.text)
    for _ in range(call.model.agent.most_tries - 1):
        if not faults:
            break
        why = f"The first answer {_listed(faults)}, {ONCE_MORE}"
        call = replace(call, step=call.step + 1)
        another = await _second(call, why, reader, live)
        if another is None:
            if live.note == why:
                live.replace(best.text, "The second answer broke off, so the first one stays.")
            break
        of_another = await in_database_patiently(faults_of, another.text)
        if is_refusal(another.text) or len(of_another) > len(faults):
            live.replace(best.text, "The second answer is no better, so the first one stays.")
        else:
            best, faults = another, of_another
    return best


def _faults_of(
    agent: Agent, attempt: Attempt, reader: ReplyReader
) -> Callable[[str], Sequence[str]] | None:
    """Return the function that finds the faults of a reply, or None if this reply is not checked.
    The function may make queries."""
    found: list[Callable[[str], Sequence[str]]] = []
    if agent.has_reply_rules and reader.cleaner:
        names = (reader.cleaner.own, *reader.cleaner.others)
        found.append(
            lambda text: broken_rules(text, Asked(attempt.words, names, _earlier_replies(attempt)))
        )
    if agent.small and agent.has_small_form:
        found.append(partial(agent.small.faults, attempt))
    return (lambda text: [fault for one in found for fault in one(text)]) if found else None


def not_declined(reply: FinishedReply | None, reader: ReplyReader, *, tries: int) -> FinishedReply:
    """Return the reply. Raise ModelDeclined if it is a refusal or if there is no reply."""
    if reply and not is_refusal(reply.text, of_small_model=reader.is_small or tries > 1):
        return reply
    twice = " twice" if tries > 1 else ""
    raise ModelDeclined(
        f"The model declined{twice} as a program does, so nothing of its answer was taken into the "
        "story. Your prompt is kept: retry, put it in other words, or choose another model."
    )


def _earlier_replies(attempt: Attempt) -> list[str]:
    """Return the last replies of the character before the turn of `attempt`."""
    before = attempt.turn.number - 1 if attempt.turn else None
    told = chosen_events(attempt.session, to_prompt=before)
    own = told.filter(agent_slot=attempt.actor, role=Event.Role.AGENT).order_by("-prompt_index")
    return list(own.values_list("text", flat=True)[:COMPARED_REPLIES])


async def _second(
    call: PreparedCall, why: str, reader: ReplyReader, live: LiveReply
) -> FinishedReply | None:
    """Return the reply of this further call, or None if the call was refused or failed. `why` is
    the note for the readers. They get it once the call is made."""
    reader = reader.new()
    try:
        again = await let_call_through(call.session_id, lambda: call)
    except (ChapterError, ProviderError) as refusal:
        logger.warning("a reply is not asked for again: %s", type(refusal).__name__)
        return None
    live.replace("", why)
    shown = ShownReply(reader, live)
    try:
        reply = await make_prose_call(
            again,
            on_text=shown.show,
            on_restart=shown.here(),
            is_enough=reader.is_enough,
        )
        reader.show_rest(live.append)
        return reader.finish(reply)
    except ProviderError as error:
        logger.warning("the second try of a reply failed: %s", type(error).__name__)
        return None


def _listed(broken: Sequence[str]) -> str:
    *others, last = broken
    return f"{', '.join(others)} and {last}" if others else last
