"""Functions that run trials and read the replies for tests."""

import asyncio
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from pytest_django import Settings

from agents.flows.replies.layers_to_try import read_reply
from agents.flows.replies.trials import start_trial
from agents.flows.tests.playing import play, reply_is_over
from agents.llm.providers.base import ModelRequest
from agents.llm.providers.scripted import ScriptedProvider
from agents.running.database import in_database
from agents.running.live import LIVE_REPLIES
from sessions.models import Attempt, Session
from sessions.play.attempts import open_trial
from sessions.play.committing import reply_of
from sessions.record.chosen_events import attempts_at
from sessions.tests.factories import make_active_chapter

IDENTITY = "Mara\nA ferrywoman who has lost her boat."


@pytest.fixture
def chapter(provider: ScriptedProvider, settings: Settings) -> Session:
    """Return a chapter with two prompts, both answered by the first character."""
    settings.LLM = "scripted"
    chapter = make_active_chapter()
    provider.enqueue("I wait.", "I look at the lamp.")
    play(chapter, "The lamp goes out.")
    play(chapter, "A bell rings.")
    return chapter


def number_of(chapter: Session, name: str) -> int:
    return next(one.number for one in read_reply(chapter.pk).layers if one.name == name)


async def begin(
    chapter: Session,
    text: str = IDENTITY,
    *,
    name: str = "AGENT_IDENTITY",
    number: int | None = None,
    **more: Any,
) -> Attempt:
    """Start a trial, and return its attempt. If the engine refuses the trial, raise its error."""
    layer = await in_database(number_of, chapter, name) if number is None else number
    sent: dict[str, Any] = {"layer_number": layer, "text": text, "submission_key": "", **more}
    return (await start_trial(chapter.pk, **sent)).attempt


def try_again(chapter: Session, text: str = IDENTITY, **more: Any) -> Attempt:
    """Start a trial as `begin` does, and wait until it has ended."""

    async def run() -> Attempt:
        attempt = await begin(chapter, text, **more)
        await reply_is_over(attempt.pk)
        return attempt

    attempt = async_to_sync(run)()
    attempt.refresh_from_db()
    return attempt


def running_elsewhere(chapter: Session, text: str = IDENTITY) -> Attempt:
    """Store a trial whose row says that another process is writing it."""
    tried = read_reply(chapter.pk)
    layer = tried.find_layer(number_of(chapter, "AGENT_IDENTITY"))
    changed: dict[str, object] = {
        "call_id": str(tried.call.artifact.pk),
        "layer": layer.number,
        "layer_name": layer.name,
        "text_before": layer.text,
        "text": text,
    }
    return open_trial(
        chapter.pk, source=tried.attempt, changed_layer=changed, submission_key="elsewhere"
    ).attempt


async def words_have_come(attempt: Attempt) -> None:
    while not LIVE_REPLIES[attempt.pk].parts:
        await asyncio.sleep(0)


def tried(chapter: Session, provider: ScriptedProvider) -> Attempt:
    """Return a committed trial of the latest reply."""
    provider.enqueue("I run to the quay.")
    return try_again(chapter)


def row_of(chapter: Session) -> dict[str, Any]:
    """Return all fields of the chapter's own row."""
    return dict(Session.objects.filter(pk=chapter.pk).values().get())


def trials_of(chapter: Session) -> list[Attempt]:
    return list(chapter.attempts.filter(kind=Attempt.Kind.TRIAL).order_by("submitted_at"))


def contents(request: ModelRequest) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in request.messages]


def replies_to(chapter: Session, number: int) -> list[str]:
    """Return the replies of all committed attempts at this turn, oldest first."""
    attempts = attempts_at(chapter.turns.get(number=number))
    return [reply_of(attempt).text for attempt in attempts]
