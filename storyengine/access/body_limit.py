"""Limits request bodies before Django reads them: who may send a body, how large it may be, and how
long it may take.

Under ASGI, Django writes the whole body to a file before any middleware sees the request, so the
middleware would be too late. When this module refuses a request, it writes the response, the
headers and the log line without Django.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.urls import Resolver404, resolve

from storyengine.access.api_access import API_PREFIX
from storyengine.access.before_body import refuse_before_body
from storyengine.access.login_gate import open_paths
from storyengine.access.middleware import HEADERS
from storyengine.access.problem import problem
from storyengine.access.requests import HEADER as REQUEST_ID
from storyengine.access.requests import good_id, note_unread
from storyengine.settings.import_limits import OVER_THE_NETWORK

Message = Any
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Receive, Send], Awaitable[None]]

# The views that accept a chapter as a file.
IMPORTS = ("pages:import", "api:import_session")
# The limit in bytes of a body with an imported file. The body also has the form around the file, so
# it may be a little larger than a file.
LARGEST_FILE = 21_000_000
# The limit in bytes of a body for an address that needs no login. It is enough for the login form
# with the longest password.
LARGEST_OF_STRANGERS = 20_000
# The limit in bytes of any other form. The texts in such a form are percent-encoded. The largest
# form of this kind is that of a trial, with a layer of 60,000 code points. All of Tab 1 has nine
# texts of 5,000 code points.
LARGEST_FORM = 1_100_000
# The view that takes the form of an edited reply. This form is the largest that Django reads. It is
# sent without percent-encoding, because a reply may be long.
EDIT = "pages:save-edit"
LARGEST_EDIT = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
# At most this many bytes of a refused body are read and thrown away. They are read because many
# clients read an answer only after they have sent the whole body.
_THROWN_AWAY = 200_000_000
# The next part of a body must come within this time. The whole body may take FIRST_SECONDS, and one
# second more for each SLOWEST_BYTES_PER_SECOND bytes that have arrived.
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
        """Return the limit in bytes of a body for this address."""
        if settings.PASSWORD and path in open_paths():
            return LARGEST_OF_STRANGERS
        try:
            view = resolve(path).view_name
        except Resolver404:
            view = ""
        if view in IMPORTS:
            return LARGEST_FILE
        return LARGEST_EDIT if view == EDIT else LARGEST_FORM


class _Body:
    """A request body that is being received.

    If the body is too large or too late, this class sends the refusal. It then tells the
    application that the client has disconnected, so that the application sends no second answer.
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
            # The body is complete. The next message can only say that the client has disconnected,
            # so the wait for this message has no limit.
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
        """Send the refusal. If the body has at most `read_on` bytes, the rest of the body is first
        read and thrown away."""
        self.is_refused = True
        # A client that sent "Expect: 100-continue" waits for permission, and sends no body after a
        # refusal. So there is nothing to read.
        asks_first = _header(self.scope, b"expect").lower() == b"100-continue"
        if self.declared <= read_on and not (asks_first and not self.count):
            with suppress(TimeoutError):
                while self.count <= read_on and not self.is_whole:
                    await self._next()
        await self._answer(refusal)

    async def _next(self) -> Message:
        """Return the next part of the body. Raises TimeoutError if the part comes too late."""
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
    """Return the first value of this header for which `is_good` returns True, or b"" if there is
    none."""
    found = (value for name, value in scope["headers"] if name.lower() == wanted and is_good(value))
    return next(found, b"")
