"""The embedded model reads the start of the next request before the prompt is sent, so that the
next reply begins sooner.

The reading stops as soon as another call needs the model or no further reply can follow.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable

import pytest
from asgiref.sync import async_to_sync
from pytest_django import Settings

from agents.flows.replies import warmup
from agents.flows.replies.turns import start_prompt
from agents.flows.replies.warmup import warm_reply
from agents.flows.telling.ending import request_end
from agents.flows.tests.playing import reply_is_over
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import AdmittedCall, LLMArtifact
from agents.running.database import in_database
from sessions.chapter.chapters import delete_chapter, reset_chapter
from sessions.chapter.stories import hide_chapter
from sessions.models import Attempt, Session, State
from sessions.tests.factories import add_prompts, make_active_chapter

pytestmark = pytest.mark.django_db

# A time in seconds. No test of this module takes as long.
LONG = 30.0

Task = asyncio.Task[None]


@pytest.fixture(autouse=True)
def _embedded(
    settings: Settings, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.LLM = "embedded"
    provider.name = "embedded"
    monkeypatch.setattr(warmup, "_warming", None)


@pytest.fixture
def chapter() -> Session:
    chapter = make_active_chapter(last_summarized_prompt_index=7)
    add_prompts(chapter, 7)
    return chapter


async def start_warming(provider: ScriptedProvider, chapter: Session, gate: asyncio.Event) -> Task:
    """Start reading ahead for character 1, by a call that ends only after `gate` is set."""
    provider.enqueue(Script("I", gate=gate))
    await warm_reply(chapter.pk, 1)
    task = running()
    while not provider.history:
        await asyncio.sleep(0)
    return task


def running() -> Task:
    assert warmup._warming is not None
    return warmup._warming.task


def prompt(chapter: Session, slot: int) -> Awaitable[Attempt]:
    async def send() -> Attempt:
        opened = await start_prompt(
            chapter.pk, actor=slot, words="Go.", submission_key=str(uuid.uuid4())
        )
        return opened.attempt

    return send()


def test_after_a_reply_the_next_character_s_prompt_is_read(
    chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.flows.replies.writing.warm_next_reply", warmup.warm_next_reply)

    provider.enqueue("I take the lamp from its hook and go to the door.")

    async def run() -> None:
        async with asyncio.timeout(LONG):
            attempt = await prompt(chapter, 2)
            await reply_is_over(attempt.pk)
            await asyncio.wait({running()})

    async_to_sync(run)()
    reply, ahead = provider.history
    assert "does Agent Orange do" in reply.messages[-1].content
    assert "does Agent Yellow do" in ahead.messages[-1].content
    assert (ahead.max_output_tokens, Attempt.objects.latest("submitted_at").status) == (
        1,
        Attempt.Status.COMMITTED,
    )


def test_nothing_is_read_ahead_by_a_model_that_is_paid_for(
    chapter: Session,
    provider: ScriptedProvider,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agents.flows.replies.writing.warm_next_reply", warmup.warm_next_reply)
    settings.LLM = provider.name = "openai"

    async def run() -> None:
        async with asyncio.timeout(LONG):
            attempt = await prompt(chapter, 2)
            await reply_is_over(attempt.pk)
            await warm_reply(chapter.pk, 1)

    async_to_sync(run)()
    assert warmup._warming is None
    assert len(provider.history) == 1


def test_a_prompt_to_another_character_stops_it(
    chapter: Session, provider: ScriptedProvider
) -> None:
    async def run() -> None:
        async with asyncio.timeout(LONG):
            warming = await start_warming(provider, chapter, asyncio.Event())
            attempt = await prompt(chapter, 2)
            await reply_is_over(attempt.pk)
            await asyncio.wait({warming})
            assert warming.cancelled()

    async_to_sync(run)()
    assert Attempt.objects.latest("submitted_at").status == Attempt.Status.COMMITTED


def test_a_prompt_to_the_same_character_waits_for_it(
    chapter: Session, provider: ScriptedProvider
) -> None:
    async def run() -> None:
        async with asyncio.timeout(LONG):
            gate = asyncio.Event()
            warming = await start_warming(provider, chapter, gate)
            attempt = await prompt(chapter, 1)
            for _ in range(100):
                await asyncio.sleep(0)
            assert len(provider.history) == 1
            gate.set()
            await reply_is_over(attempt.pk)
            assert warming.done()
            assert not warming.cancelled()

    async_to_sync(run)()
    assert Attempt.objects.latest("submitted_at").status == Attempt.Status.COMMITTED


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("leave", [request_end, reset_chapter, delete_chapter, hide_chapter])
def test_the_end_of_the_chapter_stops_it(
    chapter: Session, provider: ScriptedProvider, leave: Callable[[uuid.UUID], object]
) -> None:
    async def run() -> None:
        async with asyncio.timeout(LONG):
            warming = await start_warming(provider, chapter, asyncio.Event())
            await in_database(leave, chapter.pk)
            await asyncio.wait({warming})
            assert warming.cancelled()

    async_to_sync(run)()


@pytest.mark.parametrize(
    "changes",
    [{"state": State.ENDED}, {"is_ending": True}, {"turn_in_flight": uuid.uuid4()}],
    ids=["ended", "ending", "answering"],
)
def test_where_no_prompt_can_come_next_nothing_is_read(
    chapter: Session, provider: ScriptedProvider, changes: dict[str, object]
) -> None:
    Session.objects.update(**changes)

    async def run() -> None:
        await warm_reply(chapter.pk, 1)
        await asyncio.wait({running()})
        assert running().exception() is None

    async_to_sync(run)()
    assert provider.history == []


def test_a_server_that_the_user_chose_instead_is_not_asked_to_read_ahead(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.name = "openrouter"

    async def run() -> None:
        await warm_reply(chapter.pk, 1)
        await asyncio.wait({running()})

    async_to_sync(run)()
    assert provider.history == []
    assert not LLMArtifact.objects.exists()
    assert not AdmittedCall.objects.exists()
