"""An unforeseen error ends the reply in which it occurs.

The user is told that there was an error, but is not shown the text of the error.
"""

import asyncio
import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import InterfaceError, OperationalError

from agents.flows.replies import composing, finishing, warmup, writing
from agents.flows.replies.turns import keep_reply, start_prompt
from agents.flows.replies.warmup import warm_next_reply
from agents.flows.tests.playing import play, reply_is_over, texts_of
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.running.following import follow
from agents.running.live import LIVE_REPLIES, LiveReply, ReplyEnded
from sessions.models import Attempt, Session
from sessions.play.breaking import fail_attempt
from sessions.play.committing import commit_attempt
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db

Patch = pytest.MonkeyPatch
WORDS = "The lamp is dark."


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


@pytest.fixture(autouse=True)
def _all_is_asked_for(caplog: pytest.LogCaptureFixture) -> Any:
    """Fail a test that leaves a task with an error that was never read. The event loop logs such an
    error."""
    yield
    gc.collect()
    told = [one for when in ("call", "teardown") for one in caplog.get_records(when)]
    assert [one.getMessage() for one in told if one.name == "asyncio"] == []


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def failing_answer(patch: Patch, provider: ScriptedProvider, error: Exception) -> None:
    provider.enqueue(Script("I step", error=error))


def failing_append(patch: Patch, provider: ScriptedProvider, error: Exception) -> None:
    def append(live: LiveReply, text: str) -> None:
        if live.parts:
            raise error
        live.parts.append(text)

    provider.enqueue("I step in.")
    patch.setattr(LiveReply, "append", append)


def failing_record(patch: Patch, provider: ScriptedProvider, error: Exception) -> None:
    provider.enqueue("I step in.")
    patch.setattr("agents.calling.records.recording.calibrate", raising(error))


def failing_commit(patch: Patch, provider: ScriptedProvider, error: Exception) -> None:
    def commit_and_fail(attempt: Attempt, text: str) -> None:
        commit_attempt(attempt, text)
        raise error

    provider.enqueue("I step in.")
    patch.setattr(finishing, "commit_attempt", commit_and_fail)


def failing_preparation(patch: Patch, provider: ScriptedProvider, error: Exception) -> None:
    patch.setattr(composing, "prepare_call", raising(error))


def failing_choice(patch: Patch, provider: ScriptedProvider, error: Exception) -> None:
    patch.setattr(writing, "writer_of", raising(error))


Break = Callable[[Patch, ScriptedProvider, Exception], None]
PLACES: dict[Break, str] = {
    failing_answer: "I step",
    failing_append: "I ",
    failing_record: "I step in.",
    failing_commit: "I step in.",
    failing_preparation: "",
    failing_choice: "",
}
ERRORS = [MemoryError(WORDS), OverflowError(WORDS)]


@pytest.mark.each_case  # The cases end the transaction in different places.
@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize(
    ("place", "kept"), PLACES.items(), ids=lambda one: getattr(one, "__name__", "")
)
def test_it_ends_the_turn_at_once_and_keeps_its_text(
    chapter: Session,
    provider: ScriptedProvider,
    monkeypatch: Patch,
    caplog: pytest.LogCaptureFixture,
    place: Break,
    kept: str,
    error: Exception,
) -> None:
    with monkeypatch.context() as patch:
        place(patch, provider, error)
        attempt = play(chapter, key="k")
    assert (attempt.status, attempt.partial_text) == (Attempt.Status.FAILED, kept)
    assert attempt.error == (
        f"The program itself failed at this ({type(error).__name__}). Your words and the text so "
        "far are kept; retry, or keep what is there. If it fails once more, the program's log says "
        "where."
    )
    assert (texts_of(chapter), chapter.turn_in_flight, LIVE_REPLIES) == ([], None, {})
    [line] = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert line.startswith(f"attempt {attempt.pk} met an error of the program:\n")
    assert f"{type(error).__name__} at\n" in line
    assert "lamp" not in caplog.text
    # The next try at the same prompt succeeds.
    assert play(chapter, key="k").status == Attempt.Status.COMMITTED


def test_who_follows_the_reply_is_told_of_its_end(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.enqueue(Script("I step", error=MemoryError()))

    async def run() -> list[object]:
        opened = await start_prompt(chapter.pk, actor=1, words="Go.", submission_key="k")
        return [part async for part in follow(opened.attempt.pk)]

    *_, ended = async_to_sync(run)()
    assert isinstance(ended, ReplyEnded)
    assert (ended.attempt.status, ended.attempt.partial_text) == (Attempt.Status.FAILED, "I step")
    keep_reply(chapter.pk)
    assert texts_of(chapter) == ["Go.", "I step"]


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
def test_a_database_that_stays_away_leaves_the_turn_to_its_lease(
    chapter: Session,
    provider: ScriptedProvider,
    monkeypatch: Patch,
    caplog: pytest.LogCaptureFixture,
    kind: type[Exception],
) -> None:
    monkeypatch.setattr("agents.running.database.PAUSES", ())
    failing_commit(monkeypatch, provider, kind(WORDS))
    attempt = play(chapter)
    assert (attempt.status, LIVE_REPLIES) == (Attempt.Status.RUNNING, {})
    assert f"attempt {attempt.pk}: the database failed: {kind.__name__}" in caplog.text
    assert "lamp" not in caplog.text


def test_a_database_that_is_busy_for_a_moment_does_not_lose_the_end(
    chapter: Session,
    provider: ScriptedProvider,
    monkeypatch: Patch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("agents.running.database.PAUSES", (0, 0))
    failing_answer(monkeypatch, provider, MemoryError())
    tries = 0

    def fail_later(attempt: Attempt, **said: Any) -> bool:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise OperationalError("database is locked")
        return fail_attempt(attempt, **said)

    monkeypatch.setattr(finishing, "fail_attempt", fail_later)
    attempt = play(chapter)
    assert (attempt.status, attempt.partial_text, tries) == (Attempt.Status.FAILED, "I step", 3)
    assert attempt.error.startswith("The program itself failed at this (MemoryError).")
    assert "could not be ended" not in caplog.text


class TestReadingAhead:
    """An error while the server reads ahead does not change a reply that is already stored."""

    @pytest.fixture(autouse=True)
    def _embedded(self, settings: Any, provider: ScriptedProvider, monkeypatch: Patch) -> None:
        settings.LLM = "embedded"
        provider.name = "embedded"
        monkeypatch.setattr(warmup, "_warming", None)
        monkeypatch.setattr(writing, "warm_next_reply", warm_next_reply)

    def play_and_read_ahead(self, chapter: Session) -> Attempt:
        async def run() -> Attempt:
            opened = await start_prompt(chapter.pk, actor=1, words="Go.", submission_key="k")
            await reply_is_over(opened.attempt.pk)
            if warmup._warming is not None:
                await asyncio.wait({warmup._warming.task})
            return opened.attempt

        attempt = async_to_sync(run)()
        attempt.refresh_from_db()
        return attempt

    @pytest.mark.parametrize("place", ["get_chapter", "compose_start"])
    @pytest.mark.parametrize(
        ("error", "told"), [(KeyError(WORDS), 1), (OperationalError(WORDS), 0)], ids=repr
    )
    def test_an_error_before_the_call(
        self,
        chapter: Session,
        provider: ScriptedProvider,
        monkeypatch: Patch,
        caplog: pytest.LogCaptureFixture,
        place: str,
        error: Exception,
        told: int,
    ) -> None:
        monkeypatch.setattr(warmup, place, raising(error))
        provider.enqueue("I step in.")
        assert self.play_and_read_ahead(chapter).status == Attempt.Status.COMMITTED
        assert caplog.text.count("reading ahead met an error of the program") == told
        assert "lamp" not in caplog.text
