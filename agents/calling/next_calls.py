"""Lets a call through that is not the first one of a reply, or that a job makes."""

import asyncio
import uuid
from collections.abc import Callable

from agents.calling import rates
from agents.calling.calls import let_reply_through, let_through
from agents.calling.prepared_calls import PreparedCall
from agents.running.database import in_database


async def let_next_reply_through(
    session_id: uuid.UUID, prepare: Callable[[], PreparedCall]
) -> PreparedCall:
    """Return the prepared call after the checks of consent and caps. The call counts as running
    until the caller calls `rates.reply_is_over`. Raises the errors of `let_reply_through`."""
    asked = asyncio.ensure_future(in_database(let_reply_through, session_id, prepare))
    try:
        return await asyncio.shield(asked)
    except asyncio.CancelledError:
        # The thread continues after a stop, and may count a reply that nobody will write. So this
        # count is taken back.
        def stop_counting(done: "asyncio.Future[PreparedCall]") -> None:
            if not done.cancelled() and done.exception() is None:
                rates.reply_is_over(session_id)

        asked.add_done_callback(stop_counting)
        raise


async def let_call_through(
    session_id: uuid.UUID, prepare: Callable[[], PreparedCall], *, is_of_reply: bool
) -> PreparedCall:
    """Return the prepared call after the checks of consent and caps. A call of a reply counts as
    running until the caller calls `rates.reply_is_over`."""
    if is_of_reply:
        return await let_next_reply_through(session_id, prepare)
    return await in_database(let_through, session_id, prepare)
