"""Tests that the program reports a lost database or a full disk in the form that the client has
asked for."""

import errno
import sqlite3
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
from asgiref.sync import async_to_sync
from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import StreamingHttpResponse
from django.test import AsyncClient, Client
from psycopg.errors import DiskFull
from pytest_django import Settings

from agents.llm.providers.scripted import ScriptedProvider
from sessions.models import Attempt, Session
from sessions.tests.factories import make_active_chapter
from storyengine.api.tests.calling import acall, address, assert_problem, call, events_in, in_loop
from storyengine.stack.storage_refusals import find_storage_refusal
from storyengine.tabs.tests import addresses

pytestmark = pytest.mark.django_db

Break = Callable[[str], None]
ERRORS = [OperationalError("the lamp is dark"), InterfaceError("connection already closed")]


def of_sqlite(code: int) -> OperationalError:
    """Return Django's error for an error of SQLite that has this code."""
    cause = sqlite3.OperationalError("the lamp is dark")
    cause.sqlite_errorcode = code
    error = OperationalError("the lamp is dark")
    error.__cause__ = cause
    return error


def of_postgresql() -> OperationalError:
    error = OperationalError("the lamp is dark")
    error.__cause__ = DiskFull("the lamp is dark")
    return error


FULL = [
    of_sqlite(sqlite3.SQLITE_FULL),
    of_postgresql(),
    OSError(errno.ENOSPC, "the lamp is dark"),
    OSError(errno.EDQUOT, "the lamp is dark"),
]


@pytest.fixture(autouse=True)
def _no_reading_ahead(settings: Settings) -> None:
    settings.LLM = "scripted"


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def breaker(error: Exception, monkeypatch: pytest.MonkeyPatch) -> Break:
    """Return a function that replaces the function of a given name by one that raises this
    error."""

    def fail(*_arguments: object, **_named: object) -> Any:
        raise error

    return lambda name: monkeypatch.setattr(name, fail)


@pytest.fixture(params=ERRORS, ids=lambda error: type(error).__name__)
def away(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Break:
    return breaker(request.param, monkeypatch)


@pytest.fixture(params=FULL, ids=["sqlite", "postgresql", "file", "quota"])
def full(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Break:
    return breaker(request.param, monkeypatch)


def test_a_full_disk_is_said_as_that(
    full: Break, chapter: Session, caplog: pytest.LogCaptureFixture
) -> None:
    full("storyengine.tabs.play.reply_streams.start_prompt")
    full("storyengine.api.play_routes.start_prompt")
    words = {"agent_slot": "1", "submission_key": "k", "user_text": "Take <the> lamp."}
    page = async_to_sync(AsyncClient().post)(addresses.address(chapter, "prompt"), words)
    assert (page.status_code, page.get("Retry-After")) == (507, None)
    html = page.content.decode()
    assert "The disk is full" in html
    assert "Make room on it" in html
    assert "Take &lt;the&gt; lamp." in html
    body = {"agent_slot": 1, "user_text": "Take the lamp."}
    assert_problem(call("POST", address(chapter, "prompt"), body), 507, "disk-full")
    assert "the disk is full" in caplog.text
    assert "lamp" not in caplog.text


@pytest.mark.parametrize("error", [FULL[0], FULL[2]], ids=["database", "file"])
def test_so_is_one_that_access_meets(
    error: Exception, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error

    settings.PASSWORD = "correct horse"
    monkeypatch.setattr("storyengine.access.login_gate.store_password_once", fail)
    response = Client(raise_request_exception=False).get("/")
    assert response.status_code == 507
    assert "The disk is full" in response.content.decode()


@pytest.mark.parametrize("code", [sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB])
def test_a_damaged_database_is_said_as_at_the_start(
    chapter: Session, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    cause = sqlite3.DatabaseError("database disk image is malformed")
    cause.sqlite_errorcode = code

    def fail(*_arguments: object, **_options: object) -> None:
        raise DatabaseError("database disk image is malformed") from cause

    monkeypatch.setattr("storyengine.api.chapter_routes.read_session", fail)
    monkeypatch.setattr("storyengine.tabs.play.play_tab.read_play", fail)
    said = (
        "The database cannot be read, and was left as it is: database disk image is malformed. "
        "If it is damaged, docs/deployment.md says how to restore a backup all the same."
    )
    answer = call("GET", address(chapter))
    assert_problem(answer, 503, "database-damaged")
    assert answer.json()["detail"] == said
    page = Client().get(addresses.address(chapter, "play"))
    assert page.status_code == 503
    assert said in page.content.decode()


def test_a_page_says_so_and_gives_the_words_back(away: Break, chapter: Session) -> None:
    away("storyengine.tabs.play.reply_streams.start_prompt")
    words = {"agent_slot": "1", "submission_key": "k", "user_text": "Take <the> lamp."}
    response = async_to_sync(AsyncClient().post)(addresses.address(chapter, "prompt"), words)
    assert response.status_code == 503
    assert response["Retry-After"] == "5"
    html = response.content.decode()
    assert "The database is away" in html
    assert "Take &lt;the&gt; lamp." in html
    assert "the lamp is dark" not in html


def test_a_part_of_a_page_says_so_beside_the_form(away: Break, chapter: Session) -> None:
    away("storyengine.tabs.play.play_tab.read_play")
    response = Client(headers={"HX-Request": "true"}).get(addresses.address(chapter, "play"))
    assert response.status_code == 503
    assert response["HX-Reswap"] == "innerHTML"
    assert "<html" not in response.content.decode()


def test_so_does_the_login_in_front_of_the_pages(away: Break, settings: Settings) -> None:
    settings.PASSWORD = "correct horse"
    away("storyengine.access.login_gate.store_password_once")
    for client in (Client(raise_request_exception=False).get, _aget):
        response = client("/")
        assert response.status_code == 503
        assert response["Retry-After"] == "5"
        assert "The database is away" in response.content.decode()


def _aget(path: str) -> Any:
    return async_to_sync(AsyncClient(raise_request_exception=False).get)(path)


def test_the_api_answers_a_problem(away: Break, chapter: Session) -> None:
    away("storyengine.api.chapter_routes.read_session")
    response = call("GET", address(chapter))
    assert_problem(response, 503, "database-away")
    assert response["Retry-After"] == "5"


def test_a_stream_ends_with_the_problem(
    away: Break, chapter: Session, provider: ScriptedProvider
) -> None:
    """The reply is stored before the request is sent again. The database is lost while the stream
    of the second request reads the reply."""
    provider.enqueue("I step through.")
    headers = {"Accept": "text/event-stream", "Idempotency-Key": "one"}

    async def scenario() -> Any:
        body = {"agent_slot": 1, "user_text": "The door opens."}
        answer = await acall("POST", address(chapter, "prompt"), body, **headers)
        return [event async for event in events_in(answer)]

    assert in_loop(scenario)[-1][0] == "turn"
    away("storyengine.api.streaming.read_answer")

    name, problem = in_loop(scenario)[-1]
    assert (name, problem["status"]) == ("error", 503)
    assert problem["type"] == "urn:storyengine:database-away"
    chapter.refresh_from_db()
    assert chapter.prompt_index == 1


@pytest.mark.parametrize("error", [*ERRORS, *FULL])
def test_a_page_s_stream_is_asked_for_again_and_says_where_it_waits_for_room(
    error: Exception,
    chapter: Session,
    provider: ScriptedProvider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider.enqueue("I step through.")
    call("POST", address(chapter, "prompt"), {"agent_slot": 1, "user_text": "The door opens."})
    path = addresses.address(chapter, "stream", Attempt.objects.get().pk)
    breaker(error, monkeypatch)("storyengine.tabs.play.reply_streams.follow")

    async def read() -> bytes:
        answer = cast(StreamingHttpResponse, await AsyncClient().get(path))
        return b"".join([part async for part in cast(AsyncIterator[bytes], answer)])

    said = in_loop(read).decode()
    if error in FULL:
        assert said.startswith("event: trouble\n")
        assert "The disk that chapters are stored on is full" in said
    else:
        assert said == ""


def test_the_log_has_no_words_of_the_database(caplog: pytest.LogCaptureFixture) -> None:
    assert find_storage_refusal(of_sqlite(sqlite3.SQLITE_BUSY)) is not None
    assert "OperationalError" in caplog.text
    assert "lamp" not in caplog.text
