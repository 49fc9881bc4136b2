"""Tests in which the database fails while a reply is committed.

The reply must then be committed once, or its words must be kept.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import wraps
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError, connection, connections

from agents.flows.replies import finishing, writing
from agents.flows.replies.turns import keep_reply, start_prompt
from agents.flows.tests.playing import play, texts_of
from agents.llm.providers.scripted import ScriptedProvider
from agents.running import database
from agents.running.following import follow
from agents.running.live import LIVE_REPLIES, ReplyEnded
from sessions.leases import renew_attempts
from sessions.models import Attempt, Session
from sessions.play.breaking import recover_dead_attempts
from sessions.tests.factories import make_active_chapter
from sessions.tests.racing import held_elsewhere

pytestmark = pytest.mark.django_db(transaction=True)

REPLY = "I step in, and close the door."
Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _own_thread(monkeypatch: Patch) -> Iterator[None]:
    """Give the streaming code one thread that has its own connection, as outside of tests."""
    monkeypatch.setattr(database, "PAUSES", (0, 0, 0))
    with ThreadPoolExecutor(1) as thread:
        monkeypatch.setattr(database, "database_threads", thread)
        yield
        thread.submit(lambda: connection.close()).result()


@pytest.fixture
def chapter(provider: ScriptedProvider) -> Session:
    provider.enqueue(REPLY)
    return make_active_chapter()


def once(patch: Patch, module: Any, name: str, trouble: Callable[..., Any]) -> list[str]:
    """Replace a function of a module. The first call runs `trouble`, and each later call runs the
    original function.

    `trouble` gets the original function and its arguments. Return a list that grows with each call.
    """
    function, tries = getattr(module, name), list[str]()

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        tries.append(name)
        return trouble(function, *args) if len(tries) == 1 else function(*args, **kwargs)

    patch.setattr(module, name, run)
    return tries


def connection_lost(patch: Patch) -> list[str]:
    """Make PostgreSQL end the connection before the transaction is committed."""

    def commit(function: Callable[..., Any], *args: Any) -> None:
        function(*args)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        raise AssertionError("The connection is still there.")

    return once(patch, finishing, "commit_attempt", commit)


def acknowledgement_lost(patch: Patch) -> list[str]:
    """Commit the reply, and then raise an error as if the connection had been lost."""
    backend: Any = type(connections["default"])
    write = backend._commit

    def write_and_fail(wrapper: Any) -> None:
        write(wrapper)
        raise OperationalError("the connection was lost")

    def commit(function: Callable[..., Any], *args: Any) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(backend, "_commit", write_and_fail)
            function(*args)

    return once(patch, writing, "commit_reply", commit)


def lock_timeout(patch: Patch) -> list[str]:
    """Let another thread hold a row for longer than the commit waits for it."""
    is_sqlite = connection.vendor == "sqlite"
    name = "PRAGMA busy_timeout =" if is_sqlite else "SET lock_timeout ="

    def wait(milliseconds: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"{name} {milliseconds}")

    def commit(function: Callable[..., Any], *args: Any) -> None:
        with held_elsewhere(lambda: Session.objects.update(title="Held")):
            wait(20)
            try:
                function(*args)
            finally:
                wait(20_000)

    return once(patch, writing, "commit_reply", commit)


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(
            connection_lost,
            marks=pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has none"),
        ),
        acknowledgement_lost,
        lock_timeout,
    ],
)
def test_it_is_committed_once(
    chapter: Session, monkeypatch: Patch, trouble: Callable[[Patch], list[str]]
) -> None:
    tries = trouble(monkeypatch)

    async def run() -> Any:
        opened = await start_prompt(chapter.pk, actor=1, words="Go.", submission_key="k")
        async with aclosing(follow(opened.attempt.pk)) as parts:
            return [part async for part in parts]

    *_, ended = async_to_sync(run)()
    assert isinstance(ended, ReplyEnded)
    assert (ended.attempt.status, len(tries)) == (Attempt.Status.COMMITTED, 2)
    assert texts_of(chapter) == ["Go.", REPLY]
    again = play(chapter, "Go.", key="k")
    assert (again.pk, again.status) == (ended.attempt.pk, Attempt.Status.COMMITTED)
    assert (chapter.prompt_index, chapter.turn_in_flight, len(LIVE_REPLIES)) == (1, None, 0)
    assert play(chapter).status == Attempt.Status.COMMITTED


def test_where_it_stays_away_the_words_are_kept_and_the_turn_is_free_again(
    chapter: Session, monkeypatch: Patch
) -> None:
    def fail(attempt: Attempt, text: str) -> None:
        # The claim was renewed with this text of the reply before the database failed.
        renew_attempts([(attempt, text)])
        raise OperationalError("the server is away")

    with monkeypatch.context() as patched:
        patched.setattr(writing, "commit_reply", fail)
        attempt = play(chapter, key="k")
    assert attempt.is_running
    assert not LIVE_REPLIES
    Attempt.objects.update(lease_until=attempt.submitted_at)
    assert recover_dead_attempts() == 1
    chapter.refresh_from_db()
    assert (chapter.prompt_index, chapter.turn_in_flight) == (0, None)
    assert keep_reply(chapter.pk).pk == attempt.pk
    assert texts_of(chapter)[1:] == [REPLY]
