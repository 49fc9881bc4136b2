"""Tests of several API tokens that are tried at the same time. The right token does not wait for
wrong tokens from other addresses. If too many wrong tokens from one address are waiting, the right
token from this address is refused too."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from axes.handlers.database import AxesDatabaseHandler
from django.conf import settings as django_settings
from django.http import HttpRequest
from pytest_django import Settings

from agents.running import database
from storyengine.access.api_access import Verdict, atry_token
from storyengine.asgi import application

LIMIT = django_settings.AXES_FAILURE_LIMIT
TOKEN = "token-of-the-test-0123456789"
STRANGER, PROGRAM = "203.0.113.9", "192.0.2.7"
PATIENCE = 10.0


def request_of(token: str, address: str) -> HttpRequest:
    request = HttpRequest()
    request.META = {"HTTP_AUTHORIZATION": f"Bearer {token}", "REMOTE_ADDR": address}
    return request


@pytest.fixture(autouse=True)
def _token(settings: Settings) -> None:
    settings.API_TOKEN = TOKEN


@pytest.fixture
def may_count(monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """Yield an event. Until the event is set, each wrong token waits to be counted.

    The counting runs in threads, as it does in the program.
    """
    event = Event()
    monkeypatch.setattr(AxesDatabaseHandler, "get_failures", lambda *args: 0)
    monkeypatch.setattr(
        AxesDatabaseHandler, "user_login_failed", lambda *args, **kwargs: event.wait(PATIENCE)
    )
    with ThreadPoolExecutor(2) as threads:
        monkeypatch.setattr(database, "database_threads", threads)
        yield event
        event.set()


def try_behind(guesses: int, address: str, may_count: Event) -> Verdict | None:
    """Return the verdict on the right token from `address`, while wrong tokens from STRANGER wait
    to be counted."""

    async def play() -> Verdict | None:
        waiting = [
            asyncio.create_task(atry_token(request_of("a guess", STRANGER))) for _ in range(guesses)
        ]
        # The other tasks run here, until each wrong token waits to be counted.
        await asyncio.sleep(0)
        verdict = await asyncio.wait_for(atry_token(request_of(TOKEN, address)), PATIENCE / 2)
        assert not any(task.done() for task in waiting)
        may_count.set()
        assert set(await asyncio.gather(*waiting)) == {Verdict.WRONG}
        return verdict

    return asyncio.run(play())


def test_wrong_ones_keep_no_right_one_waiting(may_count: Event) -> None:
    assert try_behind(3 * LIMIT, PROGRAM, may_count) is Verdict.RIGHT


def test_one_that_was_guessed_among_many_overtakes_none(may_count: Event) -> None:
    assert try_behind(LIMIT, STRANGER, may_count) is Verdict.PAUSED


@pytest.mark.django_db
def test_one_that_comes_with_a_body_is_tried_once(
    password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token is tried before the body is read. The view reuses the verdict."""
    tried: list[object] = []
    count: Callable[..., int] = AxesDatabaseHandler.get_failures

    def note_and_count(*args: object) -> int:
        tried.append(args)
        return count(*args)

    monkeypatch.setattr(AxesDatabaseHandler, "get_failures", note_and_count)
    assert async_to_sync(post)("/api/no-such-address") == 404
    assert len(tried) == 1


async def post(path: str) -> int:
    """Send a body to the program's ASGI application, and return the status of the answer."""
    body = b"{}"
    headers = {
        "Host": "localhost",
        "Authorization": f"Bearer {TOKEN}",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "client": (PROGRAM, 50_000),
        "headers": [(name.lower().encode(), one.encode()) for name, one in headers.items()],
    }
    messages = [{"type": "http.request", "body": body}]
    answer: list[Any] = []

    async def receive() -> Any:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop()

    async def send(message: Any) -> None:
        answer.append(message)

    await application(scope, receive, send)
    return int(answer[0]["status"])
