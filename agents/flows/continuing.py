"""Continues a reply once, if the output limit cut it.

The continuation is a call of its own, with a record of its own, and it counts for the caps. If it
cannot be made or breaks off, the reply stays cut, and `Attempt.was_cut` says so.
"""

import logging
from collections.abc import Callable

from agents.calling.calls import Reply, let_call_through, make_prose_call
from agents.calling.prepared_calls import PreparedCall, prepare_call
from agents.flows.reply_texts import ReplyReader
from agents.prompting.layers import Layer, Piece, text_layer
from agents.prompting.prompt_files import render_prompt
from agents.prompting.seams import Seam, WholeWords, without_half_word
from agents.providers.exceptions import ProviderError
from sessions.exceptions import ChapterError

logger = logging.getLogger(__name__)

Show = Callable[[str], None]


async def write_whole(call: PreparedCall, reader: ReplyReader, show: Show) -> Reply:
    """Make the call, and continue its reply if the output limit cut it.

    A small model is not continued, because its limit is what keeps its replies short.
    """
    if reader.is_small:
        return await make_prose_call(call, on_text=show, is_enough=reader.is_enough)
    words = WholeWords()
    try:
        reply = await make_prose_call(call, on_text=lambda piece: show(words.take(piece)))
        if not reply.was_cut or reader.has_ended:
            return reply
        before = without_half_word(reply.text)
        more = await _continue(call, reader, before, show) if before.strip() else None
        if more is None:
            return reply
        # The half word comes again in the continuation.
        words.end()
        return Reply(before + more.text, more.was_cut)
    finally:
        show(words.end())


async def _continue(
    call: PreparedCall, reader: ReplyReader, before: str, show: Show
) -> Reply | None:
    """Return the text that follows `before`, or None if nothing came.

    Text that arrived before an error is kept, because it was shown and may have cost something.
    """
    try:
        following = await let_call_through(call.session_id, lambda: _prepare(call, before))
    except (ChapterError, ProviderError) as refusal:
        logger.warning("a reply stays cut: %s", type(refusal).__name__)
        return None
    seam, front = Seam(before), reader.new_front()
    told: list[str] = []
    was_cut = True

    def take(text: str) -> None:
        told.append(text)
        show(text)

    try:
        more = await make_prose_call(
            following, on_text=lambda piece: take(seam.take(front.take(piece)))
        )
        was_cut = more.was_cut
    except ProviderError as error:
        logger.warning("a reply stays cut: %s", type(error).__name__)
    finally:
        take(seam.take(front.end()) + seam.end())
    text = "".join(told)
    return Reply(text, was_cut) if text.strip() else None


def _prepare(call: PreparedCall, before: str) -> PreparedCall:
    """Prepare the same call again, with the text so far as the model's own words."""
    wrote = Layer("REPLY_SO_FAR", (Piece(before.rstrip()),), role="assistant", has_heading=False)
    ask = text_layer("CONTINUE", render_prompt("reply_continue"), has_heading=False)
    return prepare_call(
        call.agent,
        call.session_id,
        lambda: [*call.compose(), wrote, ask],
        attempt_id=call.attempt_id,
        step=call.step + 1,
    )
