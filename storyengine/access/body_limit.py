"""What is asked before a body is taken: who sends it, how large it is, and how long it takes.

Under ASGI Django writes a body whole to a file before any middleware sees the request: for the same
reason the answer, its headers and its line in the log are made here.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cached_property
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.urls import reverse

from storyengine.access.api_access import API_PREFIX
from storyengine.access.before_body import refuse_before_body
from storyengine.access.headers import HEADERS
from storyengine.access.login_gate import open_paths
from storyengine.access.problem import problem
from storyengine.exchange.limits import OVER_THE_NETWORK
from storyengine.operations.requests import HEADER as REQUEST_ID
from storyengine.operations.requests import good_id, note_unread

Message = Any
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Receive, Send], Awaitable[None]]

# What takes a chapter as a file.
IMPORTS = ("pages:import", "api:import_session")
# Such a file and what a form puts around it.
LARGEST_FILE = 21_000_000
# What a stranger may send: the login form with the longest password.
LARGEST_OF_STRANGERS = 20_000
# What a form puts around as many texts as Django takes, which itself refuses one that is a little
# too large.
_AROUND_TEXTS = 100_000
# So much more is read and thrown away: many clients hear an answer only once they have sent all.
_THROWN_AWAY = 200_000_000
# Without another part of the body; and for the whole one, which gets more time the more has come.
SILENT_SECONDS = 30.0
FIRST_SECONDS = 60.0
SLOWEST_BYTES_PER_SECOND = 10_000

_TOO_LATE = "The body came too slowly, or stopped coming. Nothing was changed; send it again."
_GONE = {"type": "http.disconnect"}


class BodyLimit:
    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _has_body(scope):
            await self.application(scope, receive, send)
            return
        body = _Body(scope, receive, send, self.largest(scope["path"]))
        if refusal := await refuse_before_body(scope):
            await body.refuse(refusal, read_on=body.limit)
        elif body.declared > body.limit:
            await body.refuse_size()
        else:
            await self.application(scope, body.receive, send)

    def largest(self, path: str) -> int:
        """In bytes, of a body for this address."""
        if path in self._imports:
            return LARGEST_FILE
        if settings.PASSWORD and path in open_paths():
            return LARGEST_OF_STRANGERS
        return settings.DATA_UPLOAD_MAX_MEMORY_SIZE + _AROUND_TEXTS

    @cached_property
    def _imports(self) -> frozenset[str]:
        return frozenset(reverse(name) for name in IMPORTS)


class _Body:
    """A body as it comes. One over the limit, or too late, ends for the application as if the
    client had gone: then nobody answers but this.
    """

    def __init__(self, scope: Any, receive: Receive, send: Send, limit: int) -> None:
        self.scope, self._receive, self._send, self.limit = scope, receive, send, limit
        self.declared = int(_header(scope, b"content-length", bytes.isdigit)[:20] or 0)
        self.count = 0
        self.is_whole = self.is_refused = False
        self.started = time.perf_counter()

    async def receive(self) -> Message:
        if self.is_refused:
            return _GONE
        if self.is_whole:
            # What comes now is that the client has gone, for which nobody sets a time.
            return await self._receive()
        try:
            message = await self._next()
        except TimeoutError:
            await self.refuse(self._say(408, "late", "Too late", _TOO_LATE))
            return _GONE
        if self.count <= self.limit:
            return message
        await self.refuse_size()
        return _GONE

    async def refuse_size(self) -> None:
        detail = f"The body is larger than {self.limit:,} bytes. Nothing was changed."
        if self.limit == LARGEST_FILE:
            detail += f" {OVER_THE_NETWORK.way_on}."
        refusal = self._say(413, "too-large", "Too large", detail)
        await self.refuse(refusal, read_on=_THROWN_AWAY)

    async def refuse(self, refusal: HttpResponse, *, read_on: int = 0) -> None:
        """Answer, once the rest was thrown away where it is at most `read_on` bytes."""
        self.is_refused = True
        # Who asks first sends nothing after a refusal.
        asks_first = _header(self.scope, b"expect").lower() == b"100-continue"
        if self.declared <= read_on and not (asks_first and not self.count):
            with suppress(TimeoutError):
                while self.count <= read_on and not self.is_whole:
                    await self._next()
        await self._answer(refusal)

    async def _next(self) -> Message:
        """Raises TimeoutError."""
        late = self.started + FIRST_SECONDS + self.count / SLOWEST_BYTES_PER_SECOND
        async with asyncio.timeout(min(SILENT_SECONDS, late - time.perf_counter())):
            message = await self._receive()
        self.count += len(message.get("body", b""))
        self.is_whole = not message.get("more_body", False)
        return message

    def _say(self, status: int, kind: str, title: str, detail: str) -> HttpResponse:
        path = self.scope["path"]
        if not path.startswith(API_PREFIX):
            return HttpResponse(detail, status=status, content_type="text/plain; charset=utf-8")
        return problem(status, title, detail, kind=kind, instance=path)

    async def _answer(self, response: HttpResponse) -> None:
        method, path, status = self.scope["method"], self.scope["path"], response.status_code
        request_id = good_id(_header(self.scope, REQUEST_ID.lower().encode()).decode("latin-1"))
        note_unread(method, path, status=status, request_id=request_id, started=self.started)
        own = {
            "Cache-Control": "no-store",
            "Connection": "close",
            "Content-Length": str(len(response.content)),
            REQUEST_ID: request_id,
        }
        headers = HEADERS | dict(response.items()) | own
        raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})
        await self._send({"type": "http.response.body", "body": response.content})


def _has_body(scope: Any) -> bool:
    length = _header(scope, b"content-length")
    return length.strip(b"0") != b"" or _header(scope, b"transfer-encoding") != b""


def _header(scope: Any, wanted: bytes, is_good: Callable[[bytes], bool] = bool) -> bytes:
    """The first good one of that name; b"" without one."""
    found = (value for name, value in scope["headers"] if name.lower() == wanted and is_good(value))
    return next(found, b"")
