"""Trials in tests: one layer changed, and what came of it."""

from typing import Any

import pytest
from pytest_django import Settings

from agents.flows.tests.playing import play
from agents.flows.trials import read_reply, request_trial
from agents.models import Job
from agents.providers.base import ModelRequest
from agents.providers.scripted import ScriptedProvider
from agents.running.work import work_on
from sessions.models import Event, Session
from sessions.tests.factories import make_active_chapter

IDENTITY = "Mara\nA ferrywoman who has lost her boat."


@pytest.fixture
def chapter(provider: ScriptedProvider, settings: Settings) -> Session:
    """Two prompts were answered, both by the first character."""
    settings.LLM = "scripted"
    chapter = make_active_chapter()
    provider.enqueue("I wait.", "I look at the lamp.")
    play(chapter, "The lamp goes out.")
    play(chapter, "A bell rings.")
    return chapter


def number_of(chapter: Session, name: str) -> int:
    return next(one.number for one in read_reply(chapter.pk).layers if one.name == name)


def try_again(
    chapter: Session, text: str = IDENTITY, *, name: str = "AGENT_IDENTITY", **more: Any
) -> Job:
    number = number_of(chapter, name)
    sent: dict[str, Any] = {"layer_number": number, "text": text, "submission_key": "", **more}
    return request_trial(chapter.pk, **sent)


def tried(chapter: Session, provider: ScriptedProvider) -> Job:
    """A trial that came to a reply of its own."""
    provider.enqueue("I run to the quay.")
    job = try_again(chapter)
    work_on(job.pk)
    job.refresh_from_db()
    return job


def contents(request: ModelRequest) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in request.messages]


def replies_to(chapter: Session, number: int) -> list[str]:
    events = chapter.events.filter(prompt_index=number, role=Event.Role.AGENT)
    return [event.text for event in events.order_by("created_at")]
