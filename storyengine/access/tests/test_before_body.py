"""Tests that a request without a valid login, token or origin is refused before any of its body is
stored."""

import json

import pytest
from django.conf import settings as django_settings
from django.db import OperationalError
from django.test import Client
from pytest_django import Settings

from storyengine.access.tests.asgi_calls import Exchange

TOKEN = "token-of-the-test-0123456789"
JSON = {"Content-Type": "application/json"}
PAGES = ("/", "/chapters/import", "/admin/login/", "/no-such-page", "/static/base.css", "/logout")
SIZE = 900_000


def send(path: str, **headers: str) -> Exchange:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Exchange(SIZE, path=path, headers={**JSON, **named})


def assert_is_refused(exchange: Exchange, status: int) -> None:
    assert exchange.status == status
    assert not exchange.application.was_asked
    assert exchange.headers[b"connection"] == b"close"
    assert exchange.headers[b"x-frame-options"] == b"DENY"
    # The body is read to its end, because some clients read the answer only after they have sent
    # the whole body.
    assert exchange.left == 0


def assert_is_taken(exchange: Exchange) -> None:
    assert (exchange.status, exchange.application.stored) == (200, SIZE)


@pytest.mark.django_db
class TestWithPassword:
    @pytest.fixture(autouse=True)
    def _closed(self, settings: Settings, password: str) -> None:
        settings.API_TOKEN = TOKEN

    @pytest.mark.parametrize("path", PAGES)
    @pytest.mark.parametrize("cookie", ["", "storyengine_session=guessed"])
    def test_pages_ask_for_the_login(self, path: str, cookie: str) -> None:
        refused = send(path, Cookie=cookie, Accept="text/html")
        assert_is_refused(refused, 302)
        assert refused.headers[b"location"].startswith(b"/login?next=")

    def test_htmx_is_sent_to_the_login_page_as_a_whole(self) -> None:
        refused = send("/", HX_Request="true")
        assert_is_refused(refused, 401)
        assert refused.headers[b"hx-redirect"].startswith(b"/login?next=")

    def test_a_login_opens(self, client: Client, password: str) -> None:
        client.post("/login", {"password": password})
        cookie = f"storyengine_session={client.cookies['storyengine_session'].value}"
        for path in ("/", "/no-such-page"):
            assert_is_taken(send(path, Cookie=cookie))
        client.post("/logout")
        assert_is_refused(send("/", Cookie=cookie, Accept="text/html"), 302)

    @pytest.mark.parametrize("path", ["/api/session", "/api/session/import", "/api/no-such"])
    @pytest.mark.parametrize("authorization", ["", "Bearer wrong", f"Basic {TOKEN}"])
    def test_the_api_asks_for_its_token(self, path: str, authorization: str) -> None:
        refused = send(path, Authorization=authorization)
        assert_is_refused(refused, 401)
        assert refused.headers[b"content-type"] == b"application/problem+json"
        assert json.loads(refused.body)["status"] == 401

    def test_the_token_opens(self) -> None:
        assert_is_taken(send("/api/session", Authorization=f"Bearer {TOKEN}"))

    def test_no_login_opens_the_api(self, client: Client, password: str) -> None:
        client.post("/login", {"password": password})
        cookie = f"storyengine_session={client.cookies['storyengine_session'].value}"
        assert_is_refused(send("/api/session", Cookie=cookie), 401)

    def test_a_wrong_token_counts(self) -> None:
        for _ in range(django_settings.AXES_FAILURE_LIMIT):
            send("/api/session", Authorization="Bearer wrong")
        paused = send("/api/session", Authorization=f"Bearer {TOKEN}")
        assert_is_refused(paused, 429)
        assert paused.headers[b"retry-after"] == b"300"

    def test_a_stranger_s_large_one_is_not_read_at_all(self) -> None:
        large = Exchange(50_000_000, declared="50000000", headers={"Accept": "text/html"})
        assert (large.status, large.left) == (302, 50_000_000)

    def test_nor_one_of_a_client_that_asks_first(self) -> None:
        asking = Exchange(SIZE, declared=str(SIZE), headers={"Expect": "100-continue"})
        assert (asking.status, asking.left) == (302, SIZE)

    def test_nobody_is_let_in_while_the_database_is_away(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail() -> None:
            raise OperationalError

        monkeypatch.setattr("storyengine.access.login_gate.store_password_once", fail)
        refused = send("/", Cookie="storyengine_session=guessed")
        assert_is_refused(refused, 503)
        assert refused.headers[b"retry-after"]

    def test_it_leaves_a_line(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level("INFO"):
            send("/chapters/import")
        [line] = [one for one in caplog.records if one.msg == "request"]
        fields = getattr(line, "fields", {})
        assert (fields["route"], fields["status"]) == ("pages:import", 302)


@pytest.mark.usefixtures("no_password")
class TestWithoutPassword:
    @pytest.mark.parametrize("path", ["/", "/api/session"])
    def test_this_machine_is_served(self, path: str) -> None:
        assert_is_taken(send(path))
        assert_is_taken(send(path, Origin="http://localhost", Sec_Fetch_Site="same-origin"))

    @pytest.mark.parametrize("path", ["/", "/chapters/import", "/api/session/import"])
    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://localhost:3000"},
            {"Sec_Fetch_Site": "cross-site"},
        ],
    )
    def test_a_page_of_another_site_parks_nothing(self, path: str, headers: dict[str, str]) -> None:
        refused = send(path, **headers)
        assert_is_refused(refused, 403)

    @pytest.mark.parametrize("path", ["/", "/chapters/import", "/api/session", "/healthz"])
    def test_nor_under_a_name_that_was_made_to_lead_here(self, path: str) -> None:
        assert_is_refused(send(path, Host="evil.example"), 400)

    def test_a_token_that_is_set_is_asked_for(self, settings: Settings, db: None) -> None:
        settings.API_TOKEN = TOKEN
        assert_is_refused(send("/api/session"), 401)
        assert_is_taken(send("/api/session", Authorization=f"Bearer {TOKEN}"))


def test_an_address_that_cannot_be_read_is_refused() -> None:
    exchange = Exchange(SIZE, query=b"\xff")
    assert_is_refused(exchange, 400)
