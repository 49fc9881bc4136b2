"""Tests of a process that renews the claims of all its replies at once."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from agents.running import claims
from agents.running.claims import keep_claim
from agents.running.database import in_database
from agents.running.live import LiveReply
from agents.tests.calling import LONG
from sessions.leases import renew_attempts
from sessions.models import Attempt, Session
from sessions.play.attempts import open_prompt, start_keeping
from sessions.play.breaking import stop_attempt
from sessions.play.committing import commit_attempt
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let renewals follow each other without a pause. Return a list with the number of queries of
    each renewal."""
    counts: list[int] = []

    def renew(texts: Sequence[tuple[Attempt, str]]) -> set[UUID]:
        with CaptureQueriesContext(connection) as queries:
            lost = renew_attempts(texts)
        counts.append(len(queries))
        return lost

    monkeypatch.setattr(claims, "FLUSH_SECONDS", 0)
    monkeypatch.setattr(claims, "renew_attempts", renew)
    return counts


def send(chapter: Session | None = None) -> Attempt:
    chapter = chapter or make_active_chapter()
    return open_prompt(chapter.pk, actor=1, words="Go.", submission_key="k").attempt


def in_time(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(LONG):
            await scenario()

    async_to_sync(run)()


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0)


async def one_more(rounds: list[int]) -> None:
    """Wait for the end of a renewal that begins after this call.

    A renewal that is already running does not count.
    """
    seen = len(rounds)
    await until(lambda: len(rounds) > seen + 2)


async def writer_of(attempt: Attempt, text: str) -> "asyncio.Task[None]":
    """Start a task that holds the claim of this attempt, with this text as the text so far.

    The task never ends by itself.
    """

    async def write() -> None:
        with keep_claim(attempt, LiveReply([text])):
            await asyncio.Event().wait()

    task = asyncio.create_task(write())
    await asyncio.sleep(0)
    return task


@pytest.mark.parametrize("count", [1, 3])
def test_it_takes_as_many_queries_for_three_replies_as_for_one(
    rounds: list[int], count: int
) -> None:
    attempts = [send() for _ in range(count)]
    leases = [attempt.lease_until for attempt in attempts]

    async def scenario() -> None:
        for number, attempt in enumerate(attempts):
            await writer_of(attempt, f"I step {number}")
        await one_more(rounds)

    in_time(scenario)
    # A renewal has four queries: the start of a savepoint, the reading of the rows, the storing of
    # the texts with the new leases, and the end of the savepoint.
    assert rounds[-1] == 4
    for number, (attempt, lease) in enumerate(zip(attempts, leases, strict=True)):
        attempt.refresh_from_db()
        assert attempt.partial_text == f"I step {number}"
        assert attempt.lease_until > lease


def test_who_writes_a_turn_that_was_stopped_elsewhere_is_cancelled_and_nobody_else(
    rounds: list[int],
) -> None:
    attempts = [send() for _ in range(3)]

    async def scenario() -> None:
        first, stopped, last = [await writer_of(attempt, "I step") for attempt in attempts]
        await one_more(rounds)
        await in_database(stop_attempt, attempts[1])
        await asyncio.wait({stopped})
        assert stopped.cancelled()
        await one_more(rounds)
        assert not first.done()
        assert not last.done()

    in_time(scenario)


def test_an_attempt_keeps_its_claim_when_the_one_before_it_ends(rounds: list[int]) -> None:
    chapter = make_active_chapter()
    attempt = send(chapter)

    async def scenario() -> None:
        before = await writer_of(attempt, "I st")
        await in_database(stop_attempt, attempt)
        again = await in_database(send, chapter)
        assert (again.pk, again.run_id != attempt.run_id) == (attempt.pk, True)
        writing = await writer_of(again, "You step in")
        before.cancel()
        await asyncio.wait({before})
        await one_more(rounds)
        assert not writing.done()

    in_time(scenario)
    attempt.refresh_from_db()
    assert (attempt.status, attempt.partial_text) == (Attempt.Status.RUNNING, "You step in")


def test_who_has_just_committed_a_reply_is_not_cancelled(rounds: list[int]) -> None:
    attempt, other = send(), send()

    async def scenario() -> None:
        writing = [await writer_of(attempt, "I step"), await writer_of(other, "I wait")]
        assert await in_database(commit_attempt, attempt, "I step in.")
        await one_more(rounds)
        assert not any(task.done() for task in writing)

    in_time(scenario)
    assert renew_attempts([(attempt, "I step")]) == set()
    attempt.refresh_from_db()
    assert (attempt.status, attempt.partial_text) == (Attempt.Status.COMMITTED, "")


def test_who_writes_a_reply_that_was_kept_elsewhere_is_cancelled(rounds: list[int]) -> None:
    attempt = send()
    keeping = Attempt.objects.get(pk=attempt.pk)

    def stop_and_keep() -> None:
        # The stop and the commit run in one call, so that no renewal happens between them.
        stop_attempt(keeping, partial_text="I step")
        keeping.refresh_from_db()
        assert commit_attempt(start_keeping(keeping), "I step")

    async def scenario() -> None:
        writing = await writer_of(attempt, "I step in and spend")
        await in_database(stop_and_keep)
        await asyncio.wait({writing})
        assert writing.cancelled()

    in_time(scenario)
    attempt.refresh_from_db()
    assert attempt.status == Attempt.Status.COMMITTED
    assert [event.text for event in attempt.events.all()] == ["Go.", "I step"]


@pytest.mark.parametrize("error", [OperationalError("database is locked"), RuntimeError("thread")])
def test_what_fails_for_a_round_is_tried_again(
    error: Exception,
    rounds: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    attempt = send()

    def refuse_first(texts: Sequence[tuple[Attempt, str]]) -> set[UUID]:
        rounds.append(0)
        if len(rounds) == 1:
            raise error
        return renew_attempts(texts)

    monkeypatch.setattr(claims, "renew_attempts", refuse_first)

    async def scenario() -> None:
        writing = await writer_of(attempt, "I step")
        await one_more(rounds)
        assert not writing.done()

    in_time(scenario)
    attempt.refresh_from_db()
    assert attempt.partial_text == "I step"
    assert f"could not be renewed: {type(error).__name__}" in caplog.text


def test_nothing_goes_on_without_claims_and_the_next_one_is_kept_again(rounds: list[int]) -> None:
    attempts = send(), send()

    async def scenario() -> None:
        before = asyncio.all_tasks()
        for attempt in attempts:
            writing = await writer_of(attempt, "I step")
            await one_more(rounds)
            writing.cancel()
            await until(lambda: asyncio.all_tasks() == before)
            assert not claims._keepers

    in_time(scenario)
    for attempt in attempts:
        attempt.refresh_from_db()
        assert attempt.partial_text == "I step"
