"""Tests that a request is refused before Django stores its body, if the body is too large or
arrives too slowly."""

import asyncio
import json
from itertools import count
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest
from django.conf import settings as django_settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from sessions.limits import AGENT_NAME_CHAR_LIMIT, MAX_AGENTS, TAB1_CHAR_LIMIT
from sessions.tests.factories import make_chapter
from storyengine.access import body_limit
from storyengine.access.body_limit import (
    LARGEST_EDIT,
    LARGEST_FILE,
    LARGEST_FORM,
    LARGEST_OF_STRANGERS,
)
from storyengine.access.middleware import HEADERS
from storyengine.access.tests.asgi_calls import Exchange
from storyengine.settings.import_limits import MAX_FILE_BYTES, import_command

EDIT_OF_A_REPLY = reverse("pages:save-edit", args=[UUID(int=1), 8])
IMPORTS = ("/chapters/import", "/api/session/import")
JSON = {"Content-Type": "application/json"}
# A character with four bytes in UTF-8 and twelve bytes in a URL-encoded form.
WIDE = "🌊"


@pytest.mark.parametrize("path", IMPORTS)
def test_an_imported_chapter_fits(path: str) -> None:
    assert LARGEST_FILE > MAX_FILE_BYTES
    fits = Exchange(LARGEST_FILE, declared=str(LARGEST_FILE), path=path, headers=JSON)
    assert (fits.status, fits.application.stored) == (200, LARGEST_FILE)


@pytest.mark.parametrize("declared", ["100000000", ""])
@pytest.mark.parametrize(
    ("path", "limit"), [("/login", LARGEST_FORM), *((path, LARGEST_FILE) for path in IMPORTS)]
)
def test_a_hundred_megabytes_are_read_to_their_end_and_not_stored(
    path: str, limit: int, declared: str
) -> None:
    large = Exchange(100_000_000, declared=declared, path=path, headers=JSON)
    assert large.status == 413
    assert large.application.stored <= limit
    # The body is read to its end, because some clients read the answer only after they have sent
    # the whole body.
    assert large.left == 0
    assert len(large.answer) == 2


class TestEverythingElse:
    """Tests of the addresses that take no import. Their limits are lower, because only an import
    needs a large body."""

    @pytest.mark.parametrize("declared", ["2000000", ""])
    @pytest.mark.parametrize(
        "path", ["/login", "/", "/nowhere", "/chapters/import/", "/chapters/new", "/api/session"]
    )
    def test_two_megabytes_are_refused(self, path: str, declared: str) -> None:
        large = Exchange(2_000_000, declared=declared, path=path, headers=JSON)
        assert (large.status, large.left) == (413, 0)
        assert large.application.stored <= LARGEST_FORM

    @pytest.mark.parametrize(
        ("path", "limit"), [("/", LARGEST_FORM), (EDIT_OF_A_REPLY, LARGEST_EDIT)]
    )
    def test_what_fits_is_taken_by_django_too(self, path: str, limit: int) -> None:
        """The program's limit must not be above Django's own limit, because Django would answer to
        a larger form as if the program had an error."""
        assert Exchange(limit, path=path).application.stored == limit
        assert limit <= django_settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        assert Exchange(limit + 1, path=path).status == 413

    @pytest.mark.django_db
    @pytest.mark.usefixtures("no_password")
    def test_the_largest_honest_setup_fits(self, client: Client) -> None:
        chapter = make_chapter()
        text, slots = WIDE * TAB1_CHAR_LIMIT, range(1, MAX_AGENTS + 1)
        form = {"world_text": text, "chapter_text": text, "agent_count": str(MAX_AGENTS)}
        form |= {f"identity_{slot}": text for slot in slots}
        form |= {
            f"name_{slot}": WIDE * (AGENT_NAME_CHAR_LIMIT - 1) + "ABCDEFG"[slot - 1]
            for slot in slots
        }
        body = urlencode(form)
        address = reverse("pages:save-world", args=[chapter.pk])
        assert Exchange(len(body), path=address).status == 200
        kind = "application/x-www-form-urlencoded"
        assert client.post(address, body, content_type=kind).status_code == 302
        chapter.refresh_from_db()
        assert chapter.agent_texts("identity_text")[str(MAX_AGENTS)] == text


@pytest.mark.parametrize("declared", ["100000000000", "9" * 5_000])
def test_what_says_that_it_is_endless_is_not_read_at_all(declared: str) -> None:
    endless = Exchange(10**9, declared=declared)
    assert (endless.status, endless.left) == (413, 10**9)


def test_the_answer_is_in_the_form_of_who_asked() -> None:
    page = Exchange(100_000_000, declared="100000000")
    assert page.headers[b"content-type"] == b"text/plain; charset=utf-8"
    assert b"1,100,000 bytes. Nothing was changed." in page.body
    api = Exchange(100_000_000, declared="100000000", path="/api/session/import", headers=JSON)
    assert api.headers[b"content-type"] == b"application/problem+json"
    problem = json.loads(api.body)
    assert (problem["status"], problem["type"]) == (413, "urn:storyengine:too-large")
    assert (problem["title"], problem["instance"]) == ("Too large", "/api/session/import")
    assert "21,000,000 bytes" in problem["detail"]
    # If a chapter is too large for an import by the API or a page, an operator can import it by a
    # command. Only the answer to an import names this command.
    assert import_command() in problem["detail"]
    assert import_command().encode() not in page.body


@pytest.mark.parametrize("path", ["/login", "/api/session/import"])
@pytest.mark.parametrize("declared", ["100000000", ""])
def test_the_answer_has_the_headers_of_all_answers(path: str, declared: str) -> None:
    refused = Exchange(100_000_000, declared=declared, path=path, headers=JSON)
    own = {"Cache-Control": "no-store", "Content-Length": str(len(refused.body))}
    for name, value in (HEADERS | own).items():
        assert refused.headers[name.lower().encode()] == value.encode()
    assert len(refused.headers[b"x-request-id"]) >= 11


class TestTooSlow:
    """Tests of bodies that arrive too slowly. The time limits are very short here."""

    @pytest.fixture(autouse=True)
    def _no_patience(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(body_limit, "SILENT_SECONDS", 0.05)

    @pytest.mark.parametrize("declared", ["500000", ""])
    @pytest.mark.parametrize("path", ["/", "/chapters/import", "/api/session"])
    def test_one_that_stops_coming_is_let_go(self, path: str, declared: str) -> None:
        parked = Exchange(500_000, declared=declared, path=path, stops_after=300_000, headers=JSON)
        assert parked.status == 408
        assert parked.headers[b"connection"] == b"close"
        assert parked.application.stored == 300_000
        assert b"Nothing was changed" in parked.body
        if path.startswith("/api"):
            assert parked.headers[b"content-type"] == b"application/problem+json"

    @pytest.mark.parametrize(("seconds", "status"), [(10, 200), (25, 408)])
    def test_one_that_comes_by_drops_has_more_time_the_more_has_come(
        self, monkeypatch: pytest.MonkeyPatch, seconds: int, status: int
    ) -> None:
        """The client sends a tenth of a megabyte every `seconds`. No pause is long enough for a
        timeout, so only the total time decides."""
        clock = count(step=seconds)
        now = SimpleNamespace(seconds=next(clock))
        monkeypatch.setattr(body_limit, "SILENT_SECONDS", 30.0)
        monkeypatch.setattr(
            body_limit, "time", SimpleNamespace(perf_counter=lambda: float(now.seconds))
        )

        class Dripping(Exchange):
            async def receive(self) -> Any:
                now.seconds = next(clock)
                await asyncio.sleep(0)
                return await super().receive()

        assert Dripping(1_000_000).status == status

    def test_it_leaves_a_line(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level("INFO"):
            Exchange(500_000, stops_after=0)
        [line] = [one for one in caplog.records if one.msg == "request"]
        assert getattr(line, "fields", {})["status"] == 408


def test_a_client_that_asks_first_hears_a_refusal_at_once() -> None:
    """The client sends the body only after the server has asked for it, so the server must not read
    the body before it refuses the request."""
    asking = Exchange(5_000_000, declared="5000000", headers={"Expect": "100-continue"})
    assert (asking.status, asking.left) == (413, 5_000_000)


@pytest.mark.usefixtures("password")
@pytest.mark.parametrize("path", ["/login", "/healthz", "/readyz"])
def test_what_is_open_to_strangers_takes_little(path: str) -> None:
    fits = Exchange(LARGEST_OF_STRANGERS, declared=str(LARGEST_OF_STRANGERS), path=path)
    assert (fits.status, fits.application.stored) == (200, LARGEST_OF_STRANGERS)
    large = Exchange(LARGEST_OF_STRANGERS + 1, path=path)
    assert large.status == 413
    longest = urlencode({"password": WIDE * 1_000, "next": "/" + "x" * 1_000, "token": "x" * 64})
    assert len(longest) < LARGEST_OF_STRANGERS


@pytest.mark.django_db
@pytest.mark.usefixtures("no_password")
class TestCount:
    """Tests of the greatest number of parts in a form."""

    @pytest.mark.parametrize(("count", "status"), [(10_000, 422), (10_001, 400)])
    def test_of_fields(self, client: Client, count: int, status: int) -> None:
        fields = {str(number): "x" for number in range(count)}
        assert client.post("/chapters/import", fields).status_code == status

    @pytest.mark.parametrize(("count", "status"), [(100, 422), (101, 400)])
    def test_of_files(self, client: Client, count: int, status: int) -> None:
        files = [SimpleUploadedFile("chapter.json", b"{}") for _ in range(count)]
        assert client.post("/chapters/import", {"file": files}).status_code == status
