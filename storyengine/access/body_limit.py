"""The longest body that is taken at all, refused before Django stores it or the door is asked.

Under ASGI Django writes a body whole to a file before any middleware sees the request.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from storyengine.access.api_door import API_PREFIX
from storyengine.access.headers import CONTENT_SECURITY_POLICY

Message = Any
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Receive, Send], Awaitable[None]]

# An imported chapter and what a form puts around it; every other body has a limit of its own.
LARGEST_BODY = 21_000_000
# So much more is read and thrown away: many clients hear an answer only once they have sent all.
_THROWN_AWAY = 200_000_000

_TITLE = "Too large"
_DETAIL = f"The body is larger than {LARGEST_BODY:,} bytes. Nothing was changed."


class BodyLimit:
    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        declared = _declared_length(scope)
        if declared > LARGEST_BODY:
            if declared <= _THROWN_AWAY:
                await _throw_away(receive)
            await _refuse(scope, send)
            return
        await self.application(scope, _Counted(scope, receive, send), send)


class _Counted:
    """`receive` that ends a body over the limit, whose length no header told, as if the client
    had gone: then nobody answers but the limit."""

    def __init__(self, scope: Any, receive: Receive, send: Send) -> None:
        self.scope, self.receive, self.send = scope, receive, send
        self.count = 0

    async def __call__(self) -> Message:
        if self.count > LARGEST_BODY:
            return {"type": "http.disconnect"}
        message = await self.receive()
        self.count += len(message.get("body", b""))
        if self.count <= LARGEST_BODY:
            return message
        if message.get("more_body"):
            await _throw_away(self.receive)
        await _refuse(self.scope, self.send)
        return {"type": "http.disconnect"}


def _declared_length(scope: Any) -> int:
    for name, value in scope["headers"]:
        if name.lower() == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


async def _throw_away(receive: Receive) -> None:
    count = 0
    while count <= _THROWN_AWAY:
        message = await receive()
        count += len(message.get("body", b""))
        if not message.get("more_body"):
            return


async def _refuse(scope: Any, send: Send) -> None:
    if scope["path"].startswith(API_PREFIX):
        kind = b"application/problem+json"
        problem = {
            "type": "urn:storyengine:too-large",
            "title": _TITLE,
            "status": 413,
            "detail": _DETAIL,
            "instance": scope["path"],
        }
        body = json.dumps(problem).encode()
    else:
        kind = b"text/plain; charset=utf-8"
        body = _DETAIL.encode()
    headers = [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body})
