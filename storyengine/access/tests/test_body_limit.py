"""Bodies that no door takes, refused before Django stores them."""

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from storyengine.access import body_limit
from storyengine.access.body_limit import LARGEST_BODY, BodyLimit
from storyengine.exchange.chapter_file import MAX_FILE_BYTES

CHUNK = 1_000_000


class Application:
    """Reads a body as Django does, and says how much it was."""

    def __init__(self) -> None:
        self.stored = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
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
    """One request of `size` bytes: what was read of it, and the messages of the answer."""

    def __init__(
        self, size: int, *, declared: str = "", path: str = "/", kind: str = "http"
    ) -> None:
        self.left, self.answer = size, list[Any]()
        headers = [(b"Content-Length", declared.encode())] if declared else []
        self.scope = {"type": kind, "path": path, "headers": headers}
        self.application = Application()
        async_to_sync(BodyLimit(self.application))(self.scope, self.receive, self.send)

    async def receive(self) -> Any:
        part = min(CHUNK, self.left)
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


def test_an_imported_chapter_fits() -> None:
    assert LARGEST_BODY > MAX_FILE_BYTES
    fits = Exchange(LARGEST_BODY, declared=str(LARGEST_BODY))
    assert (fits.status, fits.application.stored) == (200, LARGEST_BODY)


@pytest.mark.parametrize("declared", ["100000000", ""])
def test_a_hundred_megabytes_are_read_to_their_end_and_not_stored(declared: str) -> None:
    large = Exchange(100_000_000, declared=declared)
    assert large.status == 413
    assert large.application.stored <= LARGEST_BODY
    # Some clients hear an answer only once they have sent all.
    assert large.left == 0
    assert len(large.answer) == 2


@pytest.mark.parametrize("declared", ["100000000000", "9" * 5_000])
def test_what_says_that_it_is_endless_is_not_read_at_all(declared: str) -> None:
    endless = Exchange(10**9, declared=declared)
    assert (endless.status, endless.left) == (413, 10**9)


def test_what_turns_out_to_be_endless_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_limit, "_THROWN_AWAY", 30_000_000)
    endless = Exchange(10**9)
    assert endless.status == 413
    assert endless.left > 9 * 10**8


def test_the_answer_is_in_the_form_of_who_asked() -> None:
    page = Exchange(100_000_000, declared="100000000")
    assert page.headers[b"content-type"] == b"text/plain; charset=utf-8"
    assert b"21,000,000 bytes. Nothing was changed." in page.body
    api = Exchange(100_000_000, declared="100000000", path="/api/session/import")
    assert api.headers[b"content-type"] == b"application/problem+json"
    problem = json.loads(api.body)
    assert (problem["status"], problem["type"]) == (413, "urn:storyengine:too-large")
    for one in (page, api):
        assert one.headers[b"content-security-policy"].startswith(b"default-src 'none'")
        assert one.headers[b"x-content-type-options"] == b"nosniff"
        assert one.headers[b"content-length"] == str(len(one.body)).encode()


def test_what_is_no_request_passes() -> None:
    assert Exchange(0, kind="lifespan").answer == [{"type": "lifespan"}]


@pytest.mark.django_db
@pytest.mark.usefixtures("no_password")
class TestCount:
    """How many parts a form may have, however small they are."""

    @pytest.mark.parametrize(("count", "status"), [(1_000, 422), (1_001, 400)])
    def test_of_fields(self, client: Client, count: int, status: int) -> None:
        fields = {str(number): "x" for number in range(count)}
        assert client.post("/chapters/import", fields).status_code == status

    @pytest.mark.parametrize(("count", "status"), [(100, 422), (101, 400)])
    def test_of_files(self, client: Client, count: int, status: int) -> None:
        files = [SimpleUploadedFile("chapter.json", b"{}") for _ in range(count)]
        assert client.post("/chapters/import", {"file": files}).status_code == status
