"""Tests of the readers of a reply: when the reply is stopped, when a reader leaves, when another
process writes the reply, and when the chapter is reset."""

import asyncio
import gc
from contextlib import aclosing
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from agents.flows.replies.turns import keep_reply, start_prompt, stop_reply
from agents.flows.tests.playing import reply_is_over, texts_of
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import LLMArtifact
from agents.running import claims
from agents.running.database import in_database
from agents.running.following import follow
from agents.running.live import LIVE_REPLIES, ReplyEnded, ReplyText
from sessions.chapter.chapters import reset_chapter
from sessions.exceptions import InvalidInput
from sessions.models import Attempt, Session
from sessions.tests.factories import add_attempt, make_active_chapter

pytestmark = pytest.mark.django_db


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def test_a_stop_keeps_the_text_so_far_and_it_can_be_kept(
    chapter: Session, provider: ScriptedProvider
) -> None:
    async def run() -> None:
        gate = asyncio.Event()
        provider.enqueue(Script("I step in and wait", gate=gate, gate_at=2))
        opened = await start_prompt(chapter.pk, actor=1, words="Go.", submission_key="k")
        live = LIVE_REPLIES[opened.attempt.pk]
        async for part in live.read():
            if live.text == "I step ":
                break
            assert part
        await stop_reply(chapter.pk)
        await reply_is_over(opened.attempt.pk)

    async_to_sync(run)()
    attempt = Attempt.objects.get()
    assert (attempt.status, attempt.partial_text) == (Attempt.Status.STOPPED, "I step ")
    assert texts_of(chapter) == []
    assert keep_reply(chapter.pk).status == Attempt.Status.COMMITTED
    assert texts_of(chapter) == ["Go.", "I step "]
    assert not LIVE_REPLIES


def test_a_stop_from_another_process_ends_the_reply(
    chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "FLUSH_SECONDS", 0.01)

    async def run() -> None:
        provider.enqueue(Script("I step in", gate=asyncio.Event(), gate_at=2))
        opened = await start_prompt(chapter.pk, actor=1, words="Go.", submission_key="k")
        live = LIVE_REPLIES.pop(opened.attempt.pk)
        await stop_reply(chapter.pk)
        assert live.task is not None
        await asyncio.wait({live.task})

    async_to_sync(run)()
    attempt = Attempt.objects.get()
    assert (attempt.status, attempt.partial_text) == (Attempt.Status.STOPPED, "I step ")


def test_a_reader_that_leaves_does_not_touch_the_reply(
    chapter: Session, provider: ScriptedProvider
) -> None:
    async def run() -> None:
        gate = asyncio.Event()
        provider.enqueue(Script("I step in.", gate=gate, gate_at=1))
        opened = await start_prompt(chapter.pk, actor=1, words="Go.", submission_key="k")
        async for _ in follow(opened.attempt.pk):
            break
        gate.set()
        await reply_is_over(opened.attempt.pk)

    async_to_sync(run)()
    assert texts_of(chapter) == ["Go.", "I step in."]


@pytest.mark.parametrize("has_left", [False, True], ids=["there", "left before"])
def test_what_is_refused_reaches_the_client_and_leaves_nothing_behind(
    chapter: Session, caplog: pytest.LogCaptureFixture, *, has_left: bool
) -> None:
    async def run() -> None:
        others = asyncio.all_tasks()
        request = asyncio.create_task(
            start_prompt(chapter.pk, actor=1, words=" ", submission_key="k")
        )
        if has_left:
            await asyncio.sleep(0)
            request.cancel()
        await asyncio.wait({request})
        if has_left:
            assert request.cancelled()
        else:
            assert isinstance(request.exception(), InvalidInput)
        del request
        async with asyncio.timeout(20):
            while asyncio.all_tasks() != others:
                await asyncio.sleep(0)
        # asyncio logs an unread error only when the garbage collector removes the error's task.
        gc.collect()

    async_to_sync(run)()
    assert not LIVE_REPLIES
    assert not Attempt.objects.exists()
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


def test_following_a_dead_process_ends_with_the_text_it_flushed(chapter: Session) -> None:
    lapsed = timezone.now() - timedelta(seconds=1)
    attempt = add_attempt(chapter, partial_text="I st", lease_until=lapsed)
    Session.objects.update(turn_in_flight=attempt.pk)

    async def run() -> list[object]:
        return [part async for part in follow(attempt.pk)]

    *_, ended = async_to_sync(run)()
    assert isinstance(ended, ReplyEnded)
    assert (ended.attempt.status, ended.attempt.partial_text) == (Attempt.Status.FAILED, "I st")


def test_a_reset_under_a_reply_leaves_no_trace_of_it(
    chapter: Session, provider: ScriptedProvider
) -> None:
    async def run() -> None:
        gate = asyncio.Event()
        provider.enqueue(Script("Too late.", gate=gate, gate_at=1))
        opened = await start_prompt(chapter.pk, actor=1, words="Go.", submission_key="k")
        await in_database(reset_chapter, chapter.pk)
        gate.set()
        await reply_is_over(opened.attempt.pk)

    async_to_sync(run)()
    assert not Attempt.objects.exists()
    assert not LLMArtifact.objects.exists()
    assert Session.objects.get().pk != chapter.pk


def test_silence_is_told_and_leaving_in_it_is_no_trouble(
    chapter: Session, provider: ScriptedProvider
) -> None:
    gate = asyncio.Event()
    provider.enqueue(Script("I step in.", gate=gate, gate_at=1))

    async def run() -> list[object]:
        opened = await start_prompt(chapter.pk, actor=1, words="Go.", submission_key="k")
        async with asyncio.timeout(20), aclosing(follow(opened.attempt.pk, pause=0.01)) as left:
            async for part in left:
                if part is None:
                    break
        parts: list[object] = []
        async with asyncio.timeout(20):
            async for part in follow(opened.attempt.pk, pause=0.01):
                parts.append(part)
                if part is None:
                    gate.set()
        await reply_is_over(opened.attempt.pk)
        return parts

    parts = async_to_sync(run)()
    assert None in parts
    texts = [part.text for part in parts if isinstance(part, ReplyText)]
    assert "".join(texts) == "I step in."
    assert isinstance(parts[-1], ReplyEnded)
