"""The longest body that is taken at all, refused before Django stores it or the door is asked.

Under ASGI Django writes a body whole to a file before any middleware sees the request: for the same
reason the answer, its headers and its line in the log are made here.
"""

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.conf import settings
from django.urls import reverse

from storyengine.access.api_door import API_PREFIX
from storyengine.access.headers import HEADERS
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
# What a form puts around as many texts as Django takes, which itself refuses one that is a little
# too large.
_AROUND_TEXTS = 100_000
# So much more is read and thrown away: many clients hear an answer only once they have sent all.
_THROWN_AWAY = 200_000_000


class BodyLimit:
    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        refusal = _Refusal(scope, send, self.largest(scope["path"]))
        declared = int(_header(scope, b"content-length", bytes.isdigit)[:20] or 0)
        if declared > refusal.limit:
            if declared <= _THROWN_AWAY:
                await _throw_away(receive)
            await refusal.answer()
            return
        await self.application(scope, _Counted(receive, refusal), send)

    def largest(self, path: str) -> int:
        """In bytes, of a body for this address."""
        if path in self._imports:
            return LARGEST_FILE
        return settings.DATA_UPLOAD_MAX_MEMORY_SIZE + _AROUND_TEXTS

    @cached_property
    def _imports(self) -> frozenset[str]:
        return frozenset(reverse(name) for name in IMPORTS)


@dataclass(frozen=True)
class _Refusal:
    """The answer to a request whose body is over the limit."""

    scope: Any
    send: Send
    limit: int
    started: float = field(default_factory=time.perf_counter)

    async def answer(self) -> None:
        method, path = self.scope["method"], self.scope["path"]
        request_id = good_id(_header(self.scope, REQUEST_ID.lower().encode()).decode("latin-1"))
        note_unread(method, path, status=413, request_id=request_id, started=self.started)
        kind, body = self._words(path)
        headers = HEADERS | {
            "Cache-Control": "no-store",
            "Connection": "close",
            "Content-Length": str(len(body)),
            "Content-Type": kind,
            REQUEST_ID: request_id,
        }
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": 413, "headers": raw})
        await self.send({"type": "http.response.body", "body": body})

    def _words(self, path: str) -> tuple[str, bytes]:
        detail = f"The body is larger than {self.limit:,} bytes. Nothing was changed."
        if self.limit == LARGEST_FILE:
            detail += f" {OVER_THE_NETWORK.way_on}."
        if not path.startswith(API_PREFIX):
            return "text/plain; charset=utf-8", detail.encode()
        problem = {
            "type": "urn:storyengine:too-large",
            "title": "Too large",
            "status": 413,
            "detail": detail,
            "instance": path,
        }
        return "application/problem+json", json.dumps(problem).encode()


class _Counted:
    """`receive` that ends a body over the limit, whose length no header told, as if the client
    had gone: then nobody answers but the limit."""

    def __init__(self, receive: Receive, refusal: _Refusal) -> None:
        self.receive, self.refusal = receive, refusal
        self.count = 0

    async def __call__(self) -> Message:
        if self.count > self.refusal.limit:
            return {"type": "http.disconnect"}
        message = await self.receive()
        self.count += len(message.get("body", b""))
        if self.count <= self.refusal.limit:
            return message
        if message.get("more_body"):
            await _throw_away(self.receive)
        await self.refusal.answer()
        return {"type": "http.disconnect"}


def _header(scope: Any, wanted: bytes, is_good: Callable[[bytes], bool] = bool) -> bytes:
    """The first good one of that name; b"" without one."""
    found = (value for name, value in scope["headers"] if name.lower() == wanted and is_good(value))
    return next(found, b"")


async def _throw_away(receive: Receive) -> None:
    count = 0
    while count <= _THROWN_AWAY:
        message = await receive()
        count += len(message.get("body", b""))
        if not message.get("more_body"):
            return
