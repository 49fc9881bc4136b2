"""An error that nothing provides for ends its reply at once, and is told without its own words."""

import asyncio
import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import InterfaceError, OperationalError

from agents.flows import replies, warmup
from agents.flows.replies import keep_reply, start_prompt
from agents.flows.tests.playing import play, reply_is_over, texts_of
from agents.flows.warmup import warm_next_reply
from agents.models import LLMArtifact
from agents.providers.scripted import Script, ScriptedProvider
from agents.running.live import LIVE_REPLIES, LiveReply, ReplyEnded, follow
from sessions.models import Session, Turn
from sessions.tests.factories import make_active_chapter
from sessions.turns import fail_turn as end_turn
from sessions.turns import recover_stale_turns

pytestmark = pytest.mark.django_db

Patch = pytest.MonkeyPatch
WORDS = "The lamp is dark."


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


@pytest.fixture(autouse=True)
def _all_is_asked_for(caplog: pytest.LogCaptureFixture) -> Any:
    """The event loop tells, when a task goes, of an error that nobody has asked it for."""
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
    patch.setattr("agents.calling.calls.calibrate", raising(error))


def failing_commit(patch: Patch, provider: ScriptedProvider, error: Exception) -> None:
    provider.enqueue("I step in.")
    patch.setattr(replies, "queue_due_summary", raising(error))


def failing_preparation(patch: Patch, provider: ScriptedProvider, error: Exception) -> None:
    patch.setattr(replies, "prepare_call", raising(error))


def failing_choice(patch: Patch, provider: ScriptedProvider, error: Exception) -> None:
    patch.setattr(replies, "agent_of", raising(error))


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
        turn = play(chapter, key="k")
    assert (turn.status, turn.partial_text) == (Turn.Status.FAILED, kept)
    assert turn.error == (
        f"The program itself failed at this ({type(error).__name__}). Your words and the text so "
        "far are kept; retry, or keep what is there. If it fails once more, the program's log says "
        "where."
    )
    assert (texts_of(chapter), chapter.turn_in_flight, LIVE_REPLIES) == ([], None, {})
    [line] = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert line.startswith(f"turn {turn.pk} met an error of the program:\n")
    assert f"{type(error).__name__} at\n" in line
    assert "lamp" not in caplog.text
    # The next try is none the worse for it.
    assert play(chapter, key="k").status == Turn.Status.COMMITTED


def test_who_follows_the_reply_is_told_of_its_end(
    chapter: Session, provider: ScriptedProvider
) -> None:
    provider.enqueue(Script("I step", error=MemoryError()))

    async def run() -> list[object]:
        opened = await start_prompt(chapter.pk, agent_slot=1, user_text="Go.", submission_key="k")
        return [part async for part in follow(opened.turn.pk)]

    *_, ended = async_to_sync(run)()
    assert isinstance(ended, ReplyEnded)
    assert (ended.turn.status, ended.turn.partial_text) == (Turn.Status.FAILED, "I step")
    keep_reply(chapter.pk)
    assert texts_of(chapter) == ["Go.", "I step"]


def test_a_call_that_met_one_is_recorded(chapter: Session, provider: ScriptedProvider) -> None:
    provider.enqueue(Script("I step", error=MemoryError()))
    play(chapter)
    call = LLMArtifact.objects.get()
    assert (call.error, call.raw_output_ref) == ("Broke off.", "I step")


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
    turn = play(chapter)
    assert (turn.status, LIVE_REPLIES) == (Turn.Status.RUNNING, {})
    assert f"turn {turn.pk}: the database failed: {kind.__name__}" in caplog.text
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

    def fail_turn(turn: Turn, **said: Any) -> bool:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise OperationalError("database is locked")
        return end_turn(turn, **said)

    monkeypatch.setattr(replies, "fail_turn", fail_turn)
    turn = play(chapter)
    assert (turn.status, turn.partial_text, tries) == (Turn.Status.FAILED, "I step", 3)
    assert turn.error.startswith("The program itself failed at this (MemoryError).")
    assert "could not be ended" not in caplog.text


def test_where_the_turn_cannot_be_ended_its_lease_runs_out(
    chapter: Session,
    provider: ScriptedProvider,
    monkeypatch: Patch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("agents.running.database.PAUSES", ())
    failing_answer(monkeypatch, provider, MemoryError())
    monkeypatch.setattr(replies, "fail_turn", raising(OperationalError(WORDS)))
    turn = play(chapter)
    assert (turn.status, LIVE_REPLIES) == (Turn.Status.RUNNING, {})
    assert f"turn {turn.pk} could not be ended: OperationalError" in caplog.text
    Turn.objects.update(lease_until="2020-01-01T00:00Z")
    assert recover_stale_turns() == 1


def test_a_stop_that_cannot_be_settled_is_one_too(
    chapter: Session,
    provider: ScriptedProvider,
    monkeypatch: Patch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider.enqueue(Script("I step in.", gate=asyncio.Event(), gate_at=1))
    monkeypatch.setattr(replies, "extend_broken_text", raising(KeyError(WORDS)))

    async def run() -> None:
        opened = await start_prompt(chapter.pk, agent_slot=1, user_text="Go.", submission_key="k")
        async for _ in LIVE_REPLIES[opened.turn.pk].read():
            break
        await replies.stop_reply(chapter.pk)
        await reply_is_over(opened.turn.pk)

    async_to_sync(run)()
    assert Turn.objects.get().status == Turn.Status.STOPPED
    assert "met an error of the program" in caplog.text


class TestReadingAhead:
    """What follows a reply that is stored costs no more than a head start."""

    @pytest.fixture(autouse=True)
    def _embedded(self, settings: Any, monkeypatch: Patch) -> None:
        settings.LLM = "embedded"
        monkeypatch.setattr(warmup, "_warming", None)
        monkeypatch.setattr(replies, "warm_next_reply", warm_next_reply)

    def play_and_read_ahead(self, chapter: Session) -> Turn:
        async def run() -> Turn:
            opened = await start_prompt(
                chapter.pk, agent_slot=1, user_text="Go.", submission_key="k"
            )
            await reply_is_over(opened.turn.pk)
            if warmup._warming is not None:
                await asyncio.wait({warmup._warming.task})
            return opened.turn

        turn = async_to_sync(run)()
        turn.refresh_from_db()
        return turn

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
        assert self.play_and_read_ahead(chapter).status == Turn.Status.COMMITTED
        assert caplog.text.count("reading ahead met an error of the program") == told
        assert "lamp" not in caplog.text

    def test_an_error_in_the_call(
        self, chapter: Session, provider: ScriptedProvider, caplog: pytest.LogCaptureFixture
    ) -> None:
        provider.enqueue("I step in.", RecursionError(WORDS))
        assert self.play_and_read_ahead(chapter).status == Turn.Status.COMMITTED
        assert "reading ahead met an error of the program" in caplog.text
        assert "lamp" not in caplog.text
