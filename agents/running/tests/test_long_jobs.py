"""A job that hangs is ended, wherever in its work it hangs."""

import asyncio
from collections.abc import Iterator

import pytest
from pytest_django import Settings

from agents.flows.telling.narrating import request_build
from agents.flows.telling.tests.narrations import make_ended_chapter
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import Job
from agents.running import work
from agents.running.work import STOPPING, work_on
from memory.models import NarrativeDraft
from sessions.models import State

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[None]:
    monkeypatch.setattr(work, "NOTICE_SECONDS", 0.01)
    settings.LONGEST_JOB_SECONDS = 0
    yield
    STOPPING.clear()


def test_it_fails_with_a_word_of_why_and_the_chapter_goes_on(provider: ScriptedProvider) -> None:
    chapter = make_ended_chapter()
    job = request_build(chapter.pk)
    provider.enqueue(Script("The beginning of it.", gate=asyncio.Event(), gate_at=1))
    work_on(job.pk)
    job.refresh_from_db()
    chapter.refresh_from_db()
    assert job.status == Job.Status.FAILED
    assert "longer than" in job.error
    assert chapter.state == State.ENDED
    assert not NarrativeDraft.objects.exists()
