"""Tests that every request has an id and a line in the log."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import AsyncClient, Client
from django.urls import path
from pytest_django import Settings

from sessions.log_lines import current_ids
from sessions.tests.factories import make_active_chapter
from storyengine.access.requests import RequestLogMiddleware
from storyengine.asgi import application
from storyengine.operations.tests.reading import Written, growth, read_metrics

SECRET_WORDS = "marked-words"


async def show_ids(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    return HttpResponse(f"{current_ids()}", content_type="text/plain")


def be_away(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=503)


def break_down(request: HttpRequest) -> HttpResponse:
    raise RuntimeError(SECRET_WORDS)


async def stream(request: HttpRequest) -> StreamingHttpResponse:
    async def parts() -> AsyncGenerator[bytes]:
        for _ in range(3):
            yield b"x"

    return StreamingHttpResponse(parts(), content_type="text/event-stream")


urlpatterns = [
    path("ids/<uuid:session_id>", show_ids, name="show-ids"),
    path("away", be_away, name="away"),
    path("broken", break_down, name="broken"),
    path("stream", stream, name="stream"),
    path("login", show_ids, name="log-in"),
]


@pytest.fixture
def _own_urls(settings: Settings) -> None:
    settings.ROOT_URLCONF = __name__


@pytest.mark.django_db
def test_a_line_names_the_route_and_never_what_was_asked(client: Client, written: Written) -> None:
    chapter = make_active_chapter()
    client.get(f"/chapters/{chapter.pk}/play?q={SECRET_WORDS}")
    line = written.event("request")
    assert (line["method"], line["route"], line["status"]) == ("GET", "pages:play", 200)
    assert line["session_id"] == str(chapter.pk)
    assert line["ms"] >= 0
    client.get(f"/{SECRET_WORDS}?{SECRET_WORDS}")
    assert written.events("request")[1]["route"] == "unknown"
    assert SECRET_WORDS not in written.all


@pytest.mark.parametrize("is_declared", [True, False])
def test_what_is_refused_before_django_reads_it_has_a_line_too(
    written: Written, is_declared: bool
) -> None:
    session_id, body = uuid.uuid4(), b"x" * 2_000_000
    length = (b"content-length", str(len(body)).encode())
    declared = [length if is_declared else (b"transfer-encoding", b"chunked")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": f"/chapters/{session_id}/play/prompt",
        "query_string": SECRET_WORDS.encode(),
        "headers": [(b"host", b"localhost"), (b"x-request-id", b"of-the-proxy"), *declared],
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async_to_sync(application)(scope, receive, send)
    assert [one.get("status") for one in sent] == [413, None]
    assert dict(sent[0]["headers"])[b"x-request-id"] == b"of-the-proxy"
    line = written.event("request")
    assert (line["method"], line["route"], line["status"]) == ("POST", "pages:prompt", 413)
    assert (line["session_id"], line["request_id"]) == (str(session_id), "of-the-proxy")
    assert line["ms"] >= 0
    assert SECRET_WORDS not in written.all


@pytest.mark.parametrize(
    ("given", "is_taken"),
    [
        ("a1-B2_c3.d4", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("", False),
        ('a" level="none', False),
        ("two\tfields", False),
        ("ü", False),
    ],
)
@pytest.mark.usefixtures("_own_urls")
def test_the_proxy_s_id_is_taken_if_it_is_one(
    client: Client, written: Written, given: str, is_taken: bool
) -> None:
    response = client.get(f"/ids/{uuid.uuid4()}", headers={"X-Request-ID": given})
    request_id = response["X-Request-ID"]
    assert (request_id == given) == is_taken
    assert written.event("request")["request_id"] == request_id
    assert len(request_id) >= 11


@pytest.mark.usefixtures("_own_urls")
class TestIds:
    def test_they_hold_for_what_the_request_leads_to(self, client: Client) -> None:
        session_id = uuid.uuid4()
        response = client.get(f"/ids/{session_id}")
        for one in (str(session_id), response["X-Request-ID"]):
            assert one in response.content.decode()
        assert not current_ids()


@pytest.mark.usefixtures("_own_urls")
def test_a_bug_is_a_line_that_asks_to_be_read(
    client: Client, written: Written, settings: Settings
) -> None:
    client.raise_request_exception = False
    settings.DEBUG = False
    answer = client.get("/broken")
    line = written.event("request")
    assert (line["level"], line["status"]) == ("WARNING", 500)
    (bug,) = [one for one in written.events("Internal Server Error: /broken")]
    assert "in break_down" in bug["traceback"]
    assert bug["request_id"] == answer["X-Request-ID"]


@pytest.mark.usefixtures("_own_urls")
@pytest.mark.django_db
def test_a_stream_is_told_when_it_ends_and_counted_while_it_is_open(
    async_client: AsyncClient, written: Written
) -> None:
    series = 'storyengine_open_streams{process="web"}'

    async def read() -> tuple[list[float], str]:
        response = await async_client.get("/stream")
        open_streams = []
        async for _ in cast(Any, response).streaming_content:
            open_streams.append(await asyncio.to_thread(lambda: read_metrics()[series]))
        return open_streams, response["X-Request-ID"]

    before = read_metrics()[series]
    during, request_id = async_to_sync(read)()
    assert set(during) == {before + 1}
    assert read_metrics()[series] == before
    line = written.event("stream ended")
    assert (line["route"], line["request_id"]) == ("stream", request_id)


def test_a_client_that_leaves_is_told_as_one(written: Written) -> None:
    async def hang(request: HttpRequest) -> HttpResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async def leave() -> None:
        request = HttpRequest()
        request.method = "GET"
        request.resolver_match = None
        task = asyncio.ensure_future(RequestLogMiddleware(hang)(request))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async_to_sync(leave)()
    assert written.event("request")["status"] == 499


@pytest.mark.django_db
def test_requests_are_counted_by_route_and_status(client: Client) -> None:
    before = read_metrics()
    client.get("/")
    client.get("/no-such-page")
    grown = growth(before)
    for route, status in (("pages:library", 200), ("unknown", 404)):
        name = "storyengine_requests_total"
        series = f'{name}{{process="web",route="{route}",status="{status}"}}'
        assert grown[series] == 1
