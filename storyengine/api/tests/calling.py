"""Functions by which tests call the API as a program would, with JSON in requests and answers."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar, cast

from asgiref.sync import async_to_sync
from django.http import StreamingHttpResponse
from django.test import AsyncClient, Client

from agents.running.database import in_database
from agents.running.jobs import due_jobs
from agents.running.live import LIVE_REPLIES
from sessions.models import Session

R = TypeVar("R")
RunJobs = Callable[[], int]
PROBLEM = "application/problem+json"


def call(method: str, path: str, body: Any = None, **headers: str) -> Any:
    """Send a request, and return the response.

    If `body` is None, the request has no body.
    """
    content = "" if body is None else json.dumps(body)
    return Client().generic(
        method, path, content, content_type="application/json", headers=as_headers(headers)
    )


async def acall(method: str, path: str, body: Any = None, **headers: str) -> Any:
    content = "" if body is None else json.dumps(body)
    return await AsyncClient().generic(
        method, path, content, content_type="application/json", headers=as_headers(headers)
    )


def as_headers(names: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in names.items()}


def in_loop(scenario: Callable[[], Awaitable[R]]) -> R:
    """Run an async scenario to its end. Its database work is done in the thread of the test."""

    async def run() -> R:
        return await scenario()

    return async_to_sync(run)()


def address(chapter: Session, action: str = "") -> str:
    return f"/api/session/{chapter.pk}" + (f"/{action}" if action else "")


async def reply_is_running() -> None:
    """Wait until the first words of a reply were shown."""
    while not any(live.parts for live in LIVE_REPLIES.values()):
        await asyncio.sleep(0)


def waited(chapter: Session, action: str, run_jobs: RunJobs) -> Any:
    """Send a request that waits for its jobs. Run the jobs as soon as one is due, and return the
    answer to the request."""

    def is_one_due() -> bool:
        return due_jobs().exists()

    async def scenario() -> Any:
        request = asyncio.create_task(acall("POST", address(chapter, action), Prefer="wait=60"))
        while not request.done() and not await in_database(is_one_due):
            await asyncio.sleep(0)
        await in_database(run_jobs)
        return await request

    return in_loop(scenario)


async def events_in(response: StreamingHttpResponse) -> AsyncGenerator[tuple[str, Any]]:
    """Yield the name and the data of each server-sent event as soon as it arrives."""
    async for chunk in cast(AsyncIterator[bytes], response):
        for block in chunk.decode().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines())
            if "event" in fields:
                yield fields["event"], json.loads(fields["data"])


def assert_problem(response: Any, status: int, kind: str) -> dict[str, Any]:
    """Check that the response is a problem document as RFC 9457 and the API promise. Return the
    document."""
    assert response.status_code == status, response.content
    assert response.headers["Content-Type"] == PROBLEM
    problem = cast(dict[str, Any], json.loads(response.content))
    assert problem["type"] == f"urn:storyengine:{kind}"
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert problem["instance"].startswith("/api")
    return problem
