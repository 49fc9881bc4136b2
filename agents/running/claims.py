"""Renews the claims on all replies that this process writes, and stores their texts so far."""

import asyncio
import contextvars
import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from agents.running.database import in_database
from agents.running.live import LiveReply
from agents.running.relay import listen_for_stops
from sessions.leases import renew_attempts
from sessions.models import Attempt
from sessions.storage import describe, is_disk_full

logger = logging.getLogger(__name__)

# The seconds between two renewals. Each renewal also stores the texts so far.
FLUSH_SECONDS = 1.0


@dataclass(frozen=True)
class _Claim:
    attempt: Attempt
    live: LiveReply
    writer: "asyncio.Task[object]"


@dataclass(frozen=True)
class _Keeper:
    """The claims of one event loop, by run id, and the task that renews them."""

    claims: dict[uuid.UUID, _Claim]
    task: "asyncio.Task[None]"


_keepers: dict[asyncio.AbstractEventLoop, _Keeper] = {}


@contextmanager
def keep_claim(attempt: Attempt, live: LiveReply) -> Iterator[None]:
    """Renew the attempt's lease while the block runs.

    If the attempt was stopped or its chapter was reset or deleted, the task that runs the block is
    cancelled.
    """
    writer = asyncio.current_task()
    assert writer is not None, "A reply is written by a task."
    claims = _claims_of_this_loop()
    claims[attempt.run_id] = _Claim(attempt, live, writer)
    try:
        yield
    finally:
        claims.pop(attempt.run_id, None)


def _claims_of_this_loop() -> dict[uuid.UUID, _Claim]:
    loop = asyncio.get_running_loop()
    keeper = _keepers.get(loop)
    if keeper is None or keeper.task.done():
        claims: dict[uuid.UUID, _Claim] = {}
        # The task gets an empty context, because it renews the claims of all replies and not only
        # of the reply that started it.
        task = loop.create_task(_keep(claims), context=contextvars.Context())
        keeper = _keepers[loop] = _Keeper(claims, task)
    return keeper.claims


async def _keep(claims: dict[uuid.UUID, _Claim]) -> None:
    is_stopped = asyncio.Event()

    def look_at(run_id: uuid.UUID) -> None:
        if run_id in claims:
            is_stopped.set()

    listening = asyncio.create_task(listen_for_stops(look_at))
    try:
        while claims:
            # A stop by another process is looked at in the rows at once.
            with suppress(TimeoutError):
                # Before Python 3.12, `asyncio.wait_for` may lose a cancellation.
                async with asyncio.timeout(FLUSH_SECONDS):
                    await is_stopped.wait()
            is_stopped.clear()
            await _renew(claims)
    finally:
        listening.cancel()
        del _keepers[asyncio.get_running_loop()]


async def _renew(claims: dict[uuid.UUID, _Claim]) -> None:
    held = list(claims.values())
    lost: set[uuid.UUID] = set()
    trouble = None
    try:
        lost = await in_database(renew_attempts, [(each.attempt, each.live.text) for each in held])
    except Exception as error:  # noqa: BLE001  (or every reply that is being written would die)
        logger.warning("%s attempts could not be renewed: %s", len(held), describe(error))
        trouble = error if is_disk_full(error) else None
    for each in held:
        each.live.trouble = trouble
    for run_id in lost:
        claim = claims.pop(run_id, None)
        if claim is not None:
            claim.writer.cancel()
