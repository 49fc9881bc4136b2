"""Tests of a reply that waits for the embedded model."""

import asyncio
import uuid

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone
from pytest_django import Settings

from agents.calling.model_access import AgentModel, model_of
from agents.exceptions import ModelNotReady
from agents.flows.replies.turns import start_prompt, stop_reply
from agents.flows.tests.playing import play, replies_are_over, texts_of
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import EmbeddedServer
from agents.modes.registry import agent_of
from sessions.models import Attempt, Session
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return what is seen of the model at each look. After the last one it is there."""
    seen: list[bool] = []
    monkeypatch.setattr("agents.flows.replies.writing.LOOK_SECONDS", 0)
    look = property(lambda _model: bool(seen) and seen.pop(0))
    monkeypatch.setattr(AgentModel, "is_on_its_way", look)
    return seen


def test_it_is_written_once_the_model_is_there(
    chapter: Session, provider: ScriptedProvider, looks: list[bool]
) -> None:
    looks += [True, True, True]
    provider.enqueue("I step in.")
    assert play(chapter).status == Attempt.Status.COMMITTED
    assert texts_of(chapter) == ["The door opens.", "I step in."]
    assert looks == []


def test_it_fails_with_the_reason_if_the_model_does_not_come(
    chapter: Session, looks: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_more: object) -> None:
        raise ModelNotReady("There is no room for the model.", is_coming=False)

    looks += [True, True]
    monkeypatch.setattr("agents.flows.replies.writing.let_through", refuse)
    attempt = play(chapter)
    assert (attempt.status, attempt.error) == (
        Attempt.Status.FAILED,
        "There is no room for the model.",
    )


def test_it_can_be_stopped_while_it_waits(chapter: Session, looks: list[bool]) -> None:
    looks += [True] * 10_000

    async def stop_it() -> Attempt:
        opened = await start_prompt(
            chapter.pk, actor=1, words="The door opens.", submission_key=str(uuid.uuid4())
        )
        await asyncio.sleep(0)
        attempt = await stop_reply(chapter.pk)
        await replies_are_over()
        assert attempt.pk == opened.attempt.pk
        return attempt

    attempt = async_to_sync(stop_it)()
    attempt.refresh_from_db()
    assert attempt.is_broken
    assert texts_of(chapter) == []


@pytest.fixture
def server(settings: Settings) -> EmbeddedServer:
    settings.LLM = "embedded"
    return EmbeddedServer.objects.create(phase="loading", model="small", alive_at=timezone.now())


def test_a_model_is_on_its_way_while_its_process_fetches_or_loads_it(
    chapter: Session, server: EmbeddedServer
) -> None:
    agent = agent_of(Attempt(session=chapter, agent="character", actor=1))
    for phase, is_coming in (
        ("fetching", True),
        ("loading", True),
        ("ready", False),
        ("failed", False),
    ):
        EmbeddedServer.objects.update(phase=phase)
        assert model_of(agent).is_on_its_way is is_coming
    EmbeddedServer.objects.all().delete()
    assert not model_of(agent).is_on_its_way
