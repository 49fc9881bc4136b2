"""Tests that every address is behind the password and has the policy headers."""

from collections.abc import Iterator
from http.cookies import SimpleCookie
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.cache import cache
from django.db.models import Model
from django.http.response import HttpResponseBase
from django.test import AsyncClient, Client
from pytest_django import Settings

from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job, LLMArtifact, ProviderConsent
from memory.models import MemoryBlock, NarrativeDraft
from sessions.models import Attempt, Event, Session, Tab1Inputs, Turn
from storyengine.access.game_master import store_password_once
from storyengine.access.middleware import CONTENT_SECURITY_POLICY
from storyengine.tests.url_map import OPEN, VERBS, text_of
from storyengine.tests.whole_chapter import WholeChapter, make_whole_chapter

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery staple"
TOKEN = "token-of-the-test-0123456789"
# Words in the chapter's prompts, replies and memory. No answer to a visitor who is not signed in
# may contain them.
WORDS = "the heron counts backwards"
ACCEPTED = ("text/html", "text/event-stream", "application/json", "*/*")
STORED: tuple[type[Model], ...] = (
    *(Session, Tab1Inputs, Turn, Attempt, Event, MemoryBlock, NarrativeDraft),
    *(Job, LLMArtifact, ProviderConsent),
)


@pytest.fixture
def whole(settings: Settings, provider: ScriptedProvider) -> WholeChapter:
    settings.LLM = "scripted"
    settings.PASSWORD = ""
    provider.enqueue(f"I say that {WORDS}.", f"Again: {WORDS}.")
    return make_whole_chapter(WORDS)


@pytest.fixture
def _closed(settings: Settings, whole: WholeChapter) -> Iterator[None]:
    settings.PASSWORD = PASSWORD
    settings.API_TOKEN = TOKEN
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    store_password_once.cache_clear()
    cache.clear()
    store_password_once()
    yield
    store_password_once.cache_clear()
    cache.clear()


def everything_stored() -> dict[str, list[dict[str, Any]]]:
    return {kind.__name__: list(kind._default_manager.order_by("pk").values()) for kind in STORED}


def assert_says_nothing(response: Any, called: str) -> None:
    """Check that the response is a refusal or leads to the login page, that it has no words of the
    story, and that it starts no session."""
    # The status 429 is the answer after too many wrong tokens.
    assert response.status_code in (301, 302, 401, 403, 405, 429), called
    if response.status_code in (301, 302):
        assert response["Location"].startswith("/login?next="), called
    assert WORDS not in text_of(response), called
    assert len(text_of(response)) < 300, called
    # The response may delete the cookie of the session, but it must not set this cookie.
    cookie = response.cookies.get("storyengine_session")
    assert cookie is None or not cookie.value, called


@pytest.mark.usefixtures("_closed")
class TestBehindThePassword:
    def test_the_map_has_every_kind_of_address(self, whole: WholeChapter) -> None:
        known = "\n".join(whole.addresses)
        for part in ("/stream", "/downloads/", "/admin/", "/api/session", "/api/docs", "/usage"):
            assert part in known
        assert len(whole.addresses) > 100
        assert not [one for one in whole.addresses if set(one) & set("<>^$()\\")]

    @pytest.mark.parametrize("verb", VERBS)
    def test_no_verb_gets_a_stranger_anything(self, whole: WholeChapter, verb: str) -> None:
        before = everything_stored()
        stranger = Client(raise_request_exception=True)
        for address in whole.addresses:
            if address in OPEN:
                continue
            for accepted in ACCEPTED:
                response = stranger.generic(verb, address, headers={"Accept": accepted})
                assert_says_nothing(response, f"{verb} {address} as {accepted}")
        assert everything_stored() == before

    @pytest.mark.parametrize("verb", VERBS)
    def test_nor_under_asgi_as_it_is_served(self, whole: WholeChapter, verb: str) -> None:
        before = everything_stored()
        stranger = AsyncClient()

        async def call(address: str) -> Any:
            return await stranger.generic(verb, address)

        for address in whole.addresses:
            if address not in OPEN:
                assert_says_nothing(async_to_sync(call)(address), f"{verb} {address}")
        assert everything_stored() == before

    @pytest.mark.parametrize(
        "headers",
        [
            {"HX-Request": "true"},
            {"Cookie": "storyengine_session=guessed; storyengine_csrf=guessed"},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Basic Z206Z20="},
            {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "localhost"},
            {"X-HTTP-Method-Override": "GET", "X-Original-URL": "/healthz"},
            {"Remote-User": "gm"},
        ],
    )
    def test_no_header_talks_the_door_open(
        self, whole: WholeChapter, headers: dict[str, str]
    ) -> None:
        stranger = Client()
        for address in whole.addresses:
            if address not in OPEN:
                response = stranger.get(address, headers=headers)
                assert_says_nothing(response, f"{address} with {headers}")

    @pytest.mark.parametrize("verb", VERBS)
    @pytest.mark.parametrize("address", sorted(OPEN))
    def test_what_is_open_says_nothing_of_a_story(self, verb: str, address: str) -> None:
        assert WORDS not in text_of(Client().generic(verb, address))

    @pytest.mark.parametrize(
        "address", ["/api/../", "//", "/API/session", "/api//session", "/login/", "/healthz/x"]
    )
    def test_no_other_spelling_is_a_way_round(self, whole: WholeChapter, address: str) -> None:
        assert_says_nothing(Client().get(address), address)

    def test_the_login_ends_with_the_logout_everywhere(self, whole: WholeChapter) -> None:
        gm = Client()
        gm.post("/login", {"password": PASSWORD})
        kept = gm.cookies["storyengine_session"].value
        page = f"/chapters/{whole.chapter.pk}/play"
        assert WORDS in text_of(gm.get(page))
        gm.post("/logout")
        # The thief has a copy of the cookie from before the logout.
        thief = Client()
        thief.cookies = SimpleCookie({"storyengine_session": kept})
        assert_says_nothing(thief.get(page), page)


def assert_has_policy(response: HttpResponseBase, called: str) -> None:
    assert response["Content-Security-Policy"] == CONTENT_SECURITY_POLICY, called
    assert response["X-Content-Type-Options"] == "nosniff", called
    assert response["X-Frame-Options"] == "DENY", called
    assert response["Referrer-Policy"] == "same-origin", called
    assert response["Cross-Origin-Opener-Policy"] == "same-origin", called
    assert response["Permissions-Policy"], called
    assert "no-" in response["Cache-Control"], called
    assert "public" not in response["Cache-Control"], called


class TestPolicyHeaders:
    def test_every_page_of_a_real_chapter_carries_them(self, whole: WholeChapter) -> None:
        client = Client()
        shown = 0
        for address in whole.addresses:
            response = client.get(address)
            assert_has_policy(response, address)
            shown += response.status_code == 200 and WORDS in text_of(response)
        # The chapter's words are on at least this many pages, downloads, streams, records and API
        # documents.
        assert shown >= 25

    def test_refusals_carry_them_too(self, whole: WholeChapter) -> None:
        client = Client(enforce_csrf_checks=True)
        for address in whole.addresses:
            for verb in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
                # The request changes nothing, because it has neither a CSRF token nor a valid body.
                response = client.generic(
                    verb, address, b"x", headers={"Origin": "https://elsewhere.example"}
                )
                assert_has_policy(response, f"{verb} {address}")


@pytest.mark.usefixtures("_closed")
class TestCookies:
    def test_in_production_they_are_for_https_and_this_site_only(self, settings: Settings) -> None:
        settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True
        gm = Client()
        gm.get("/login", secure=True)
        gm.post("/login", {"password": PASSWORD}, secure=True)
        for name in ("storyengine_session", "storyengine_csrf"):
            cookie = gm.cookies[name]
            assert cookie["secure"], name
            assert cookie["httponly"], name
            assert cookie["samesite"] in ("Lax", "Strict"), name
            assert not cookie["domain"], name

    def test_each_login_has_a_session_of_its_own_until_the_logout(self) -> None:
        gm = Client()
        keys = set()
        for _ in range(2):
            gm.post("/login", {"password": PASSWORD})
            keys.add(gm.cookies["storyengine_session"].value)
            gm.post("/logout")
        assert len(keys) == 2
        assert gm.cookies["storyengine_session"].value == ""
