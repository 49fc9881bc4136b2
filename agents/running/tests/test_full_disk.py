"""If the disk gets full during a reply, the reply waits until there is room, and its readers are
told."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError, connection
from django.utils import timezone
from psycopg.errors import DiskFull

from agents.flows.replies.turns import start_prompt
from agents.flows.tests.playing import play, reply_is_over, texts_of
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.running import claims, database
from agents.running.database import in_database
from agents.running.following import follow
from agents.running.live import LIVE_REPLIES
from agents.tests.calling import LONG
from sessions.models import Attempt, Session
from sessions.play.breaking import recover_dead_attempts
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db(transaction=True)

REPLY = "I step in, and close the door."


class Disk:
    """A stand-in for the database's disk. While it is full, every write fails."""

    is_full = False

    def execute(self, run: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if self.is_full and sql.split(" ", 1)[0].strip() in ("INSERT", "UPDATE", "DELETE", "WITH"):
            raise OperationalError("the disk is full") from _of_this_database()
        return run(sql, params, many, context)


def _of_this_database() -> Exception:
    if connection.vendor == "postgresql":
        return DiskFull()
    cause = sqlite3.OperationalError()
    cause.sqlite_errorcode = sqlite3.SQLITE_FULL
    return cause


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    monkeypatch.setattr(database, "FULL_PAUSE_SECONDS", 0.01)
    # There are no tries after other errors, because a reply that waits for room on the disk does
    # not need them.
    monkeypatch.setattr(database, "PAUSES", ())
    monkeypatch.setattr(claims, "FLUSH_SECONDS", 0.01)
    disk = Disk()
    with connection.execute_wrapper(disk.execute):
        yield disk


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


async def reply_that_meets_it(chapter: Session, provider: ScriptedProvider, disk: Disk) -> Attempt:
    """Start a reply, let the disk get full, and wait until a reader of the reply gets the error.

    All words of the reply are shown before the error.
    """
    gate = asyncio.Event()
    provider.enqueue(Script(REPLY, gate=gate, gate_at=2))
    opened = await start_prompt(chapter.pk, actor=1, words="Go.", submission_key="k")
    disk.is_full = True
    gate.set()
    with pytest.raises(OperationalError):
        await read_to_the_end(opened.attempt)
    assert LIVE_REPLIES[opened.attempt.pk].text == REPLY
    return opened.attempt


async def read_to_the_end(attempt: Attempt) -> None:
    async with asyncio.timeout(LONG), aclosing(follow(attempt.pk, pause=0.05)) as parts:
        async for _part in parts:
            ...


def test_the_reply_is_stored_when_there_is_room(
    chapter: Session, provider: ScriptedProvider, disk: Disk
) -> None:
    async def run() -> None:
        attempt = await reply_that_meets_it(chapter, provider, disk)
        disk.is_full = False
        await reply_is_over(attempt.pk)

    async_to_sync(run)()
    assert Attempt.objects.get().status == Attempt.Status.COMMITTED
    assert texts_of(chapter) == ["Go.", REPLY]
    chapter.refresh_from_db()
    assert play(chapter).status == Attempt.Status.COMMITTED


def test_whoever_takes_it_for_dead_meanwhile_does_not_cut_its_words(
    chapter: Session, provider: ScriptedProvider, disk: Disk
) -> None:
    def take_for_dead() -> None:
        # Another process recovers the attempt before the process that writes the reply tries to
        # write again.
        disk.is_full = False
        Attempt.objects.update(lease_until=timezone.now() - timedelta(seconds=1), partial_text="I")
        assert recover_dead_attempts() == 1

    async def run() -> None:
        attempt = await reply_that_meets_it(chapter, provider, disk)
        await in_database(take_for_dead)
        await reply_is_over(attempt.pk)

    async_to_sync(run)()
    attempt = Attempt.objects.get()
    assert (attempt.status, attempt.partial_text) == (Attempt.Status.FAILED, REPLY)
