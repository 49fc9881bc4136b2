"""Bodies that no door takes, refused before Django stores them."""

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings as django_settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from agents.trials import LAYER_CHAR_LIMIT
from sessions.limits import AGENT_NAME_CHAR_LIMIT, MAX_AGENTS, TAB1_CHAR_LIMIT
from sessions.tests.factories import make_chapter
from storyengine.access import body_limit
from storyengine.access.body_limit import LARGEST_FILE, BodyLimit
from storyengine.access.headers import HEADERS
from storyengine.exchange.chapter_file import MAX_FILE_BYTES
from storyengine.exchange.limits import IMPORT_COMMAND

CHUNK = 100_000
SMALL = 1_100_000
IMPORTS = ("/chapters/import", "/api/session/import")
# Of four bytes in UTF-8, twelve in a form.
WIDE = "🌊"


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
        self, size: int, *, declared: str = "", path: str = "/login", kind: str = "http"
    ) -> None:
        self.left, self.answer = size, list[Any]()
        headers = [(b"Content-Length", declared.encode())] if declared else []
        self.scope = {"type": kind, "method": "POST", "path": path, "headers": headers}
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


@pytest.mark.parametrize("path", IMPORTS)
def test_an_imported_chapter_fits(path: str) -> None:
    assert LARGEST_FILE > MAX_FILE_BYTES
    fits = Exchange(LARGEST_FILE, declared=str(LARGEST_FILE), path=path)
    assert (fits.status, fits.application.stored) == (200, LARGEST_FILE)


@pytest.mark.parametrize("declared", ["100000000", ""])
@pytest.mark.parametrize(
    ("path", "limit"), [("/login", SMALL), *((path, LARGEST_FILE) for path in IMPORTS)]
)
def test_a_hundred_megabytes_are_read_to_their_end_and_not_stored(
    path: str, limit: int, declared: str
) -> None:
    large = Exchange(100_000_000, declared=declared, path=path)
    assert large.status == 413
    assert large.application.stored <= limit
    # Some clients hear an answer only once they have sent all.
    assert large.left == 0
    assert len(large.answer) == 2


class TestEverythingElse:
    """What takes no file has no use for the size of one: a stranger may send it too."""

    @pytest.mark.parametrize("declared", ["2000000", ""])
    @pytest.mark.parametrize(
        "path", ["/login", "/", "/nowhere", "/chapters/import/", "/chapters/new", "/api/session"]
    )
    def test_two_megabytes_are_refused(self, path: str, declared: str) -> None:
        large = Exchange(2_000_000, declared=declared, path=path)
        assert (large.status, large.left) == (413, 0)
        assert large.application.stored <= SMALL

    def test_what_django_takes_fits(self) -> None:
        """And what a form of several parts puts around it."""
        assert Exchange(SMALL).application.stored == SMALL
        assert SMALL > django_settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        assert Exchange(SMALL + 1).status == 413

    @pytest.mark.django_db
    @pytest.mark.usefixtures("no_password")
    def test_the_largest_honest_setup_fits(self, client: Client) -> None:
        chapter = make_chapter()
        text, slots = WIDE * TAB1_CHAR_LIMIT, range(1, MAX_AGENTS + 1)
        form = {"world_text": text, "chapter_text": text, "agent_count": str(MAX_AGENTS)}
        form |= {f"identity_{slot}": text for slot in slots}
        form |= {f"name_{slot}": WIDE * AGENT_NAME_CHAR_LIMIT for slot in slots}
        body = urlencode(form)
        address = reverse("pages:save-world", args=[chapter.pk])
        assert Exchange(len(body), path=address).status == 200
        kind = "application/x-www-form-urlencoded"
        assert client.post(address, body, content_type=kind).status_code == 302
        chapter.tab1.refresh_from_db()
        assert chapter.tab1.agent_identity_text_by_slot[str(MAX_AGENTS)] == text

    def test_the_longest_layer_to_try_fits(self) -> None:
        size = len(urlencode({"text": WIDE * LAYER_CHAR_LIMIT}))
        assert size < django_settings.DATA_UPLOAD_MAX_MEMORY_SIZE < SMALL


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
    assert b"1,100,000 bytes. Nothing was changed." in page.body
    api = Exchange(100_000_000, declared="100000000", path="/api/session/import")
    assert api.headers[b"content-type"] == b"application/problem+json"
    problem = json.loads(api.body)
    assert (problem["status"], problem["type"]) == (413, "urn:storyengine:too-large")
    assert "21,000,000 bytes" in problem["detail"]
    # A chapter that grew so large can still come in, and nothing else can.
    assert IMPORT_COMMAND in problem["detail"]
    assert IMPORT_COMMAND.encode() not in page.body


@pytest.mark.parametrize("path", ["/login", "/api/session/import"])
@pytest.mark.parametrize("declared", ["100000000", ""])
def test_the_answer_has_the_headers_of_all_answers(path: str, declared: str) -> None:
    refused = Exchange(100_000_000, declared=declared, path=path)
    own = {"Cache-Control": "no-store", "Content-Length": str(len(refused.body))}
    for name, value in (HEADERS | own).items():
        assert refused.headers[name.lower().encode()] == value.encode()
    assert len(refused.headers[b"x-request-id"]) >= 11


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
