"""Logs a line for each request, and gives each request an id. All log lines that a request causes
have its id."""

import asyncio
import logging
import re
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, cast

from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, ResolverMatch, resolve

from sessions import counts
from sessions.log_lines import go_on_working_for, note, warn, working_for
from storyengine.access.log_format import REQUESTS
from storyengine.access.middleware import GetResponse, InlineMiddleware

logger = logging.getLogger(REQUESTS)

HEADER = "X-Request-ID"
# The form of an id that a proxy may give to a request. Other ids could imitate lines of the log.
_GOOD_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
# The status that is logged if the client disconnects before the answer. nginx uses the same number.
_CLIENT_LEFT = 499
# The names of routes that monitoring programs request every second. If such a request succeeds, it
# is not logged.
_WATCHED = frozenset({"healthz", "readyz", "metrics"})


class RequestLogMiddleware(InlineMiddleware):
    """A middleware that logs each request. The line has the route and not the address, because an
    address may have a user's text."""

    def __init__(self, get_response: GetResponse) -> None:
        super().__init__(get_response)
        if self.is_async:
            # Django runs this method in a thread unless the attribute `process_view` of the
            # instance is an async function.
            self.process_view = self._process_view_inline  # type: ignore[assignment, method-assign]

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self.is_async:
            return self._answer(request)
        started = time.perf_counter()
        request_id = good_id(request.headers.get(HEADER, ""))
        with working_for(request_id=request_id):
            response = cast(HttpResponseBase, self.get_response(request))
            return _logged(request, response, request_id, started)

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        request_id = good_id(request.headers.get(HEADER, ""))
        with working_for(request_id=request_id):
            try:
                response = await cast(Awaitable[HttpResponseBase], self.get_response(request))
            except asyncio.CancelledError:
                _note(request.method, request.resolver_match, _CLIENT_LEFT, started)
                raise
            return _logged(request, response, request_id, started)

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]
    ) -> None:
        """Add the chapter's id to all later lines of this request. Django calls this method when it
        has found the view."""
        go_on_working_for(session_id=kwargs.get("session_id"))

    async def _process_view_inline(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]
    ) -> None:
        go_on_working_for(session_id=kwargs.get("session_id"))


def good_id(given: str) -> str:
    """Return the id that a proxy gave to the request. If this id has a bad form, return a new
    one."""
    return given if _GOOD_ID.fullmatch(given) else uuid.uuid4().hex


def note_unread(method: str, path: str, *, status: int, request_id: str, started: float) -> None:
    """Log a request that was answered without Django. `started` is a time of time.perf_counter."""
    try:
        match = resolve(path)
    except Resolver404:
        match = None
    with working_for(request_id=request_id):
        _note(method, match, status, started)


def _logged(
    request: HttpRequest, response: HttpResponseBase, request_id: str, started: float
) -> HttpResponseBase:
    response.headers[HEADER] = request_id
    match = request.resolver_match
    _note(request.method, match, response.status_code, started)
    if isinstance(response, StreamingHttpResponse) and response.is_async:
        ids = {"request_id": request_id, "route": _route_of(match), **_chapter_of(match)}
        parts = cast(AsyncIterable[bytes], response.streaming_content)
        response.streaming_content = _counted(parts, ids)
    return response


def _note(method: str | None, match: ResolverMatch | None, status: int, started: float) -> None:
    route = _route_of(match)
    if route in _WATCHED and status < 400:
        return
    counts.requests.labels(route, str(status)).inc()
    write = warn if status >= 500 else note
    write(
        logger,
        "request",
        method=method,
        route=route,
        status=status,
        ms=_milliseconds_since(started),
        **_chapter_of(match),
    )


async def _counted(parts: AsyncIterable[bytes], ids: Mapping[str, str]) -> AsyncGenerator[bytes]:
    """Yield the parts of a stream. Count the stream as open until it ends, and then write a log
    line.

    Other log lines get their ids from the middleware. But the stream ends after the middleware, so
    its log line gets the ids in `ids`.
    """
    started = time.perf_counter()
    counts.open_streams.inc()
    try:
        # If the client disconnects, `aclosing` closes the source of the parts, which then stops
        # following the reply.
        async with aclosing(cast(AsyncGenerator[bytes], aiter(parts))) as source:
            async for part in source:
                yield part
    finally:
        counts.open_streams.dec()
        note(logger, "stream ended", ms=_milliseconds_since(started), **ids)


def _route_of(match: ResolverMatch | None) -> str:
    return (match.view_name or match.route) if match else "unknown"


def _chapter_of(match: ResolverMatch | None) -> dict[str, str]:
    kwargs = match.kwargs if match else {}
    return {"session_id": str(kwargs["session_id"])} if "session_id" in kwargs else {}


def _milliseconds_since(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
