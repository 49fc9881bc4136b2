"""Server-sent events that say something while nothing comes, so that proxies keep them open."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

# Few proxies give up on a silent stream before half a minute.
HEARTBEAT_SECONDS = 15.0
# A comment: whoever reads the events passes it over.
HEARTBEAT = ": waiting\n\n"

_Part = TypeVar("_Part")


async def with_pauses(
    source: AsyncGenerator[_Part], seconds: float
) -> AsyncGenerator[_Part | None]:
    """The parts of `source`, and None whenever none has come for `seconds`. Closes it."""
    async with aclosing(source) as parts:
        coming = asyncio.ensure_future(anext(parts, None))
        try:
            while True:
                arrived, _ = await asyncio.wait({coming}, timeout=seconds)
                if not arrived:
                    yield None
                elif (part := coming.result()) is None:
                    return
                else:
                    yield part
                    coming = asyncio.ensure_future(anext(parts, None))
        finally:
            coming.cancel()
            # The source can be closed only when nobody reads it any more.
            await asyncio.gather(coming, return_exceptions=True)
