"""A request with a body, for tests of the code that accepts or refuses it before the body is
read."""

import asyncio
from typing import Any

from asgiref.sync import async_to_sync

from storyengine.access.body_limit import BodyLimit

CHUNK = 100_000


class Application:
    """An application that reads a body as Django does, and counts its bytes."""

    def __init__(self) -> None:
        self.stored = 0
        self.was_asked = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.was_asked = True
        if scope["type"] != "http":
            await send({"type": "lifespan"})
            return
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            self.stored += len(message["body"])
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"taken"})


class Exchange:
    """A request of `size` bytes, with the answer's messages and the number of bytes that were read.

    Without `declared`, the request does not tell its length. After `stops_after` bytes the client
    sends no more and stays connected.
    """

    def __init__(
        self,
        size: int,
        *,
        declared: str = "",
        path: str = "/",
        kind: str = "http",
        stops_after: int | None = None,
        headers: dict[str, str] | None = None,
        query: bytes = b"",
    ) -> None:
        self.left, self.answer = size, list[Any]()
        self.silent_at = None if stops_after is None else size - stops_after
        length = {"content-length": declared} if declared else {"transfer-encoding": "chunked"}
        given = {"host": "localhost", **length, **(headers or {})}
        self.scope = {
            "type": kind,
            "method": "POST",
            "path": path,
            "query_string": query,
            "client": ("127.0.0.1", 50_000),
            "headers": [(name.lower().encode(), one.encode()) for name, one in given.items()],
        }
        self.application = Application()
        async_to_sync(BodyLimit(self.application))(self.scope, self.receive, self.send)

    async def receive(self) -> Any:
        if self.left == self.silent_at:
            await asyncio.Event().wait()
        part = min(CHUNK, self.left)
        if self.silent_at is not None:
            part = min(part, self.left - self.silent_at)
        self.left -= part
        return {"type": "http.request", "body": b"x" * part, "more_body": self.left > 0}

    async def send(self, message: Any) -> None:
        self.answer.append(message)

    @property
    def status(self) -> int:
        return int(self.answer[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.answer[0]["headers"])

    @property
    def body(self) -> bytes:
        return bytes(self.answer[1]["body"])
