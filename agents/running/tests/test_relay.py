"""Tests of the words of a reply that reach another process through Redis.

The other process is another event loop, in a thread of its own, that knows no reply of this one.
"""

import asyncio
import shutil
import subprocess
import uuid
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings
from redis import Redis
from redis.exceptions import RedisError

from agents.flows.replies.turns import start_prompt, stop_reply
from agents.flows.tests.playing import reply_is_over
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.running import claims, following, relay
from agents.running.following import ShownReply, follow, newest_text
from agents.running.live import LIVE_REPLIES, LiveReply, ReplyEnded, ReplyText
from agents.running.relay import RelayedText
from sessions.models import Attempt, Session
from sessions.tests.factories import make_active_chapter
from testing.program import free_port, wait_until

REDIS = shutil.which("redis-server")
needs_redis = pytest.mark.skipif(REDIS is None, reason="no Redis on this machine")


class OwnRedis:
    """A Redis of the test, which can be ended."""

    def __init__(self) -> None:
        self.port = free_port()
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [str(REDIS), "--bind", "127.0.0.1", "--port", str(self.port), "--save", ""]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
        wait_until(self._answers, "Redis", seconds=20)
        return process

    def _answers(self) -> bool:
        try:
            return bool(Redis(port=self.port).ping())
        except RedisError:
            return False

    def end(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def names(self) -> list[str]:
        found: Any = Redis(port=self.port, decode_responses=True).keys("storyengine:*")
        return list(found)


@pytest.fixture
def redis(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnRedis]:
    own = OwnRedis()
    settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{own.port}/0"
    monkeypatch.setattr(relay, "_RETRY_SECONDS", 0.05)
    # The row is read so seldom that whatever comes soon has come through Redis.
    monkeypatch.setattr(following, "POLL_SECONDS", 30.0)
    yield own
    own.end()


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


class Written:
    """A reply that this process writes. It waits after its second word until `gate` is set."""

    def __init__(self, chapter: Session, provider: ScriptedProvider, text: str) -> None:
        self.gate = asyncio.Event()
        self.chapter = chapter
        provider.enqueue(Script(text, gate=self.gate, gate_at=2))

    async def begin(self) -> uuid.UUID:
        opened = await start_prompt(self.chapter.pk, actor=1, words="Go.", submission_key="k")
        self.attempt_id = opened.attempt.pk
        # From here on it is a reply of another process for whoever follows it.
        self.live = LIVE_REPLIES.pop(self.attempt_id)
        return self.attempt_id

    async def end(self) -> None:
        assert self.live.task is not None
        await asyncio.wait({self.live.task})


async def _shown(parts: list[Any], text: str) -> None:
    async with asyncio.timeout(20):
        while _text_of(parts) != text:
            await asyncio.sleep(0.01)


def _text_of(parts: list[Any]) -> str:
    text = ""
    for part in parts:
        if isinstance(part, ReplyText):
            text = part.text if part.is_restart else text + part.text
    return text


async def _collect(attempt_id: uuid.UUID, parts: list[Any]) -> None:
    async for part in follow(attempt_id):
        parts.append(part)


@needs_redis
@pytest.mark.django_db
def test_words_come_before_they_are_stored_and_a_late_follower_gets_those_so_far(
    redis: OwnRedis, chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "FLUSH_SECONDS", 30.0)

    async def run() -> None:
        written = Written(chapter, provider, "I step in and wait.")
        attempt_id = await written.begin()
        early: list[Any] = []
        late: list[Any] = []
        following_early = asyncio.create_task(_collect(attempt_id, early))
        await _shown(early, "I step ")
        following_late = asyncio.create_task(_collect(attempt_id, late))
        await _shown(late, "I step ")
        written.gate.set()
        async with asyncio.timeout(20):
            await asyncio.gather(following_early, following_late)
        for parts in (early, late):
            assert _text_of(parts) == "I step in and wait."
            assert isinstance(parts[-1], ReplyEnded)
            assert parts[-1].attempt.status == Attempt.Status.COMMITTED
        await written.end()

    async_to_sync(run)()


@needs_redis
@pytest.mark.django_db
def test_a_stop_reaches_the_writer_at_once(
    redis: OwnRedis, chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "FLUSH_SECONDS", 60.0)

    async def run() -> None:
        written = Written(chapter, provider, "I step in and wait.")
        parts: list[Any] = []
        following_it = asyncio.create_task(_collect(await written.begin(), parts))
        await _shown(parts, "I step ")
        async with asyncio.timeout(20):
            await stop_reply(chapter.pk)
            await written.end()
            await following_it

    async_to_sync(run)()
    attempt = Attempt.objects.get()
    assert (attempt.status, attempt.partial_text) == (Attempt.Status.STOPPED, "I step ")


@needs_redis
@pytest.mark.django_db
def test_without_redis_a_follower_goes_on_from_the_row_and_the_reply_is_committed(
    redis: OwnRedis, chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "FLUSH_SECONDS", 0.05)
    monkeypatch.setattr(following, "POLL_SECONDS", 0.05)

    async def run() -> None:
        written = Written(chapter, provider, "I step in and wait.")
        parts: list[Any] = []
        following_it = asyncio.create_task(_collect(await written.begin(), parts))
        await _shown(parts, "I step ")
        redis.end()
        written.gate.set()
        async with asyncio.timeout(30):
            await following_it
        assert isinstance(parts[-1], ReplyEnded)
        assert parts[-1].attempt.status == Attempt.Status.COMMITTED
        await written.end()

    async_to_sync(run)()
    assert chapter.events.last().text == "I step in and wait."  # type: ignore[union-attr]


@needs_redis
@pytest.mark.django_db
def test_the_words_stay_in_redis_for_a_short_time_only(
    redis: OwnRedis, chapter: Session, provider: ScriptedProvider
) -> None:
    async def run() -> None:
        written = Written(chapter, provider, "I step in and wait.")
        attempt_id = await written.begin()
        LIVE_REPLIES[attempt_id] = written.live
        written.gate.set()
        await reply_is_over(attempt_id)
        async with asyncio.timeout(20):
            while relay._at_work:
                await asyncio.wait(set(relay._at_work))

    async_to_sync(run)()
    [name] = redis.names()
    left: Any = Redis(port=redis.port).ttl(name)
    assert 0 < left <= relay._KEPT_AFTER_END_SECONDS


class UnclosedRedis:
    """A connection that answers nothing, and that cannot be closed because Redis is lost."""

    def __getattr__(self, _name: str) -> Any:
        return lambda *_args, **_options: self

    async def __aenter__(self) -> "UnclosedRedis":
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    def __await__(self) -> Any:
        return asyncio.Event().wait().__await__()

    async def aclose(self) -> None:
        raise RedisError("lost")


@pytest.mark.parametrize("does", ["listens", "relays"])
def test_who_is_cancelled_ends_even_if_the_connection_cannot_be_closed(
    does: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
    monkeypatch.setattr(relay, "_RETRY_SECONDS", 0.0)
    monkeypatch.setattr(relay, "_open", UnclosedRedis)
    live = LiveReply()
    live.append("I step in.")

    async def run() -> None:
        work: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "listens": lambda: relay.listen_for_stops(lambda _run_id: None),
            "relays": lambda: relay._relay(uuid.uuid4(), live),
        }
        task = asyncio.create_task(work[does]())
        await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=20)
        assert done
        assert task.cancelled()

    asyncio.run(run())


words = st.text("ab ", max_size=4)


@given(st.data())
def test_whatever_is_lost_what_is_shown_becomes_the_text(data: st.DataObject) -> None:
    """A writer adds text, or replaces it. Some pieces are lost, some rows are old. Whenever the row
    is read and nothing was relayed lately, the follower has the row's text; and while nothing is
    lost, it has the writer's."""
    text, stored, relayed, shown = "", "", RelayedText(), ShownReply()
    run_id, is_whole, is_first = uuid.uuid4(), True, True
    told = ""
    for _ in range(data.draw(st.integers(1, 12))):
        more, is_restart = data.draw(words), is_first or data.draw(st.booleans())
        at = 0 if is_restart else len(text)
        text = more if is_restart else text + more
        is_first = False
        if data.draw(st.booleans(), label="comes"):
            relayed.take({"text": more, "at": at, "is_restart": is_restart, "note": ""})
            is_whole = is_whole or is_restart
        else:
            is_whole = False
        if data.draw(st.booleans(), label="is stored"):
            stored = text
        newest = newest_text(stored, relayed.text, is_fresh=is_whole)
        for part in shown.bring_to(newest, [], run_id):
            assert isinstance(part, ReplyText)
            told = part.text if part.is_restart else told + part.text
        assert told == newest == shown.text
        if is_whole:
            assert relayed.text == text
        if is_whole and not stored.startswith(text):
            assert told == text
    stored = text
    told += "".join(
        part.text
        for part in shown.bring_to(newest_text(stored, None, is_fresh=False), [], run_id)
        if isinstance(part, ReplyText) and not part.is_restart
    )
    assert shown.text == text
