"""Carries the words of replies between processes through Redis, where the broker is a Redis.

The process that writes a reply adds each piece of it to a stream, which is named by the run. A
process that follows the reply reads the stream. Redis may lose everything at any moment, because
the attempt's row also has the text, at most a second old, and only the row says that a reply has
ended. So an error of Redis is only logged.
"""

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from agents.running.live import LiveReply, ReplyText

logger = logging.getLogger(__name__)

# The seconds between two additions to a stream. All that a model writes meanwhile becomes one
# addition.
_BATCH_SECONDS = 0.02
# A stream is kept for these numbers of seconds after the last addition, and after its end.
_KEPT_SECONDS, _KEPT_AFTER_END_SECONDS = 900, 30
# A connection that failed is tried again after this many seconds.
_RETRY_SECONDS = 5.0
# An answer of Redis is awaited for at most this many seconds. A reader waits for a piece at most a
# second.
_TIMEOUT_SECONDS = 3.0
_STOPS = "storyengine:stops"
_ERRORS = (RedisError, OSError)

# The tasks that carry words. The set keeps them alive.
_at_work: set["asyncio.Task[None]"] = set()


def is_relayed() -> bool:
    return settings.CELERY_BROKER_URL.startswith(("redis://", "rediss://"))


def relay_words(run_id: uuid.UUID, live: LiveReply) -> None:
    """Begin a task that adds the words of the run to its stream while they are written. The task
    ends after the reply, and nobody waits for it."""
    if is_relayed():
        task = asyncio.create_task(_relay(run_id, live))
        _at_work.add(task)
        task.add_done_callback(_at_work.discard)


async def _relay(run_id: uuid.UUID, live: LiveReply) -> None:
    while True:
        try:
            async with _connection() as redis:
                await _add_pieces(redis, _name_of(run_id), live)
                return
        except _ERRORS as error:
            _raise_if_cancelled()
            logger.warning("the words of a reply are not relayed: %s", type(error).__name__)
            if live.is_over:
                return
            await asyncio.sleep(_RETRY_SECONDS)


async def _add_pieces(redis: "Redis", name: str, live: LiveReply) -> None:
    length = 0
    async with aclosing(live.read()) as parts:
        async for part in parts:
            piece: dict[str, Any] = {}
            if isinstance(part, ReplyText):
                length = 0 if part.is_restart else length
                piece = {"text": part.text, "at": length, "note": part.note}
                piece["is_restart"] = part.is_restart
                length += len(part.text)
            await _add(redis, name, piece, kept_seconds=_KEPT_SECONDS)
            await asyncio.sleep(_BATCH_SECONDS)
    # The last addition tells the readers to look for the end in the row.
    await _add(redis, name, {}, kept_seconds=_KEPT_AFTER_END_SECONDS)


async def _add(redis: "Redis", name: str, piece: dict[str, Any], *, kept_seconds: int) -> None:
    """Add a piece to the stream, and say how long the stream is kept, in one round trip."""
    async with redis.pipeline(transaction=False) as both:
        both.xadd(name, {"piece": json.dumps(piece)})
        both.expire(name, kept_seconds)
        await both.execute()


@dataclass
class RelayedText:
    """The text of a run, as far as its pieces have come. `text` is None before the first piece has
    come, and once a piece is missing."""

    text: str | None = None
    note: str = ""

    def take(self, piece: dict[str, Any]) -> bool:
        """Add a piece. Return whether the row has to be read, which is so if the piece has no
        text."""
        if "text" not in piece:
            return True
        if piece["is_restart"]:
            self.text, self.note = piece["text"], piece["note"]
        elif self.text is not None:
            is_next = piece["at"] == len(self.text)
            self.text = self.text + piece["text"] if is_next else None
        return False


@dataclass
class RelayReader:
    """A reader of the stream of one run."""

    run_id: uuid.UUID
    relayed: RelayedText = field(default_factory=RelayedText)
    _last_id: str = "0-0"
    _redis: "Redis | None" = None

    async def wait(self, seconds: float) -> bool:
        """Wait for further pieces, at most for this time, and take them. Return whether the row has
        to be read. Without Redis, wait for the whole time."""
        until = asyncio.get_running_loop().time() + seconds
        try:
            if self._redis is None:
                self._redis = _open()
            found: Any = await self._redis.xread(
                {_name_of(self.run_id): self._last_id}, block=max(1, round(seconds * 1_000))
            )
        except _ERRORS:
            _raise_if_cancelled()
            await self.close()
            await asyncio.sleep(max(0.0, until - asyncio.get_running_loop().time()))
            return False
        must_read_row = False
        for _, entries in found or ():
            for entry_id, fields in entries:
                self._last_id = entry_id
                must_read_row |= self.relayed.take(json.loads(fields["piece"]))
        return must_read_row

    async def close(self) -> None:
        redis, self._redis = self._redis, None
        if redis is not None:
            try:
                await redis.aclose()
            except _ERRORS:
                logger.debug("a connection to Redis was lost before it was closed")


async def tell_of_stop(run_id: uuid.UUID) -> None:
    """Tell the process that writes the run that its row was changed."""
    if not is_relayed():
        return
    try:
        async with _connection() as redis:
            await redis.publish(_STOPS, str(run_id))
    except _ERRORS as error:
        logger.warning("a stop was not relayed: %s", type(error).__name__)


async def listen_for_stops(is_told: Callable[[uuid.UUID], None]) -> None:
    """Call the function with each run whose row was changed, until the task is cancelled."""
    while is_relayed():
        try:
            async with _connection() as redis, redis.pubsub() as channel:
                await channel.subscribe(_STOPS)
                async for message in channel.listen():
                    if message["type"] == "message":
                        is_told(uuid.UUID(message["data"]))
        except _ERRORS as error:
            _raise_if_cancelled()
            logger.warning("stops are not heard: %s", type(error).__name__)
        await asyncio.sleep(_RETRY_SECONDS)


def _raise_if_cancelled() -> None:
    """Raise CancelledError if the task was cancelled. A connection that cannot be closed may put
    its own error in the place of the cancellation, and the task would then never end."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


@asynccontextmanager
async def _connection() -> AsyncIterator["Redis"]:
    redis = _open()
    try:
        yield redis
    finally:
        await redis.aclose()


def _open() -> "Redis":
    return Redis.from_url(
        settings.CELERY_BROKER_URL,
        decode_responses=True,
        socket_connect_timeout=1.0,
        socket_timeout=_TIMEOUT_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )


def _name_of(run_id: uuid.UUID) -> str:
    return f"storyengine:reply:{run_id}"
