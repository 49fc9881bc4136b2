"""A disk that gets full while a reply is written: its words wait for room, and are told so."""

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

from agents.flows.replies import start_prompt
from agents.flows.tests.playing import play, reply_is_over, texts_of
from agents.providers.scripted import Script, ScriptedProvider
from agents.running import claims, database
from agents.running.database import in_database
from agents.running.live import LIVE_REPLIES, follow
from agents.storage import is_disk_full
from agents.tests.calling import LONG
from sessions.models import Session, Turn
from sessions.tests.factories import make_active_chapter
from sessions.turns import recover_stale_turns

pytestmark = pytest.mark.django_db(transaction=True)

REPLY = "I step in, and close the door."


class Disk:
    """Of the database: no write gets through while it is full."""

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
    # It waits however often it was in vain.
    monkeypatch.setattr(database, "PAUSES", ())
    monkeypatch.setattr(claims, "FLUSH_SECONDS", 0.01)
    disk = Disk()
    with connection.execute_wrapper(disk.execute):
        yield disk


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


async def reply_that_meets_it(chapter: Session, provider: ScriptedProvider, disk: Disk) -> Turn:
    """Until whoever follows it was told; all of its words are shown by then."""
    gate = asyncio.Event()
    provider.enqueue(Script(REPLY, gate=gate, gate_at=2))
    opened = await start_prompt(chapter.pk, agent_slot=1, user_text="Go.", submission_key="k")
    disk.is_full = True
    gate.set()
    with pytest.raises(OperationalError):
        await read_to_the_end(opened.turn)
    assert LIVE_REPLIES[opened.turn.pk].text == REPLY
    return opened.turn


async def read_to_the_end(turn: Turn) -> None:
    async with asyncio.timeout(LONG), aclosing(follow(turn.pk, pause=0.05)) as parts:
        async for _part in parts:
            ...


def test_the_reply_is_stored_when_there_is_room(
    chapter: Session, provider: ScriptedProvider, disk: Disk
) -> None:
    async def run() -> None:
        turn = await reply_that_meets_it(chapter, provider, disk)
        disk.is_full = False
        await reply_is_over(turn.pk)

    async_to_sync(run)()
    assert Turn.objects.get().status == Turn.Status.COMMITTED
    assert texts_of(chapter) == ["Go.", REPLY]
    chapter.refresh_from_db()
    assert play(chapter).status == Turn.Status.COMMITTED


def test_whoever_takes_it_for_dead_meanwhile_does_not_cut_its_words(
    chapter: Session, provider: ScriptedProvider, disk: Disk
) -> None:
    def take_for_dead() -> None:
        # Before the reply's own process tries again.
        disk.is_full = False
        Turn.objects.update(lease_until=timezone.now() - timedelta(seconds=1), partial_text="I")
        assert recover_stale_turns() == 1

    async def run() -> None:
        turn = await reply_that_meets_it(chapter, provider, disk)
        await in_database(take_for_dead)
        await reply_is_over(turn.pk)

    async_to_sync(run)()
    turn = Turn.objects.get()
    assert (turn.status, turn.partial_text) == (Turn.Status.FAILED, REPLY)


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has no bound to be set")
def test_sqlite_itself(chapter: Session, provider: ScriptedProvider) -> None:
    """Its file may not grow: so it says of a disk that is full, too."""
    # More than one page takes.
    words = "The lamp goes out. " * 250
    with connection.cursor() as cursor:
        cursor.execute("VACUUM")
        (pages,) = cursor.execute("PRAGMA page_count").fetchone()
        (before,) = cursor.execute("PRAGMA max_page_count").fetchone()
        cursor.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(OperationalError) as met:
            play(chapter, words)
        assert is_disk_full(met.value)
        cursor.execute(f"PRAGMA max_page_count = {before}")
    turn = play(chapter, words)
    assert turn.status == Turn.Status.COMMITTED
    assert texts_of(chapter)[0] == words
