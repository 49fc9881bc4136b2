"""Continues a reply once, if the output limit cut it.

The continuation is a call of its own, with a record of its own, and it counts for the caps. If it
cannot be made or breaks off, the reply stays cut, and `Attempt.was_cut` says so.
"""

import logging
from dataclasses import replace

from agents.calling.calls import Reply, let_call_through, make_prose_call
from agents.calling.prepared_calls import PreparedCall, prepare_call
from agents.flows.replies.incoming_text import ShownReply
from agents.llm.providers.failures.call_errors import ProviderError
from agents.prompting.cleaning.seams import Seam, WholeWords, without_half_word
from agents.prompting.layers import Layer, Piece, text_layer
from agents.prompting.prompt_files import render_prompt
from sessions.exceptions import ChapterError
from sessions.language.text import is_blank

logger = logging.getLogger(__name__)


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
        # The half word comes again in the continuation.
        words.end()
        return Reply(before + more.text, more.was_cut)
    finally:
        shown.show(words.end())


async def _continue(call: PreparedCall, shown: ShownReply, before: str) -> Reply | None:
    """Return the text that follows `before`, or None if nothing came.

    Text that arrived before an error is kept, because it was shown and may have cost something.
    """
    try:
        following = await let_call_through(call.session_id, lambda: _prepare(call, before))
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


def _prepare(call: PreparedCall, before: str) -> PreparedCall:
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
