"""The login page."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.cache.backends.locmem import LocMemCache
from django.http import HttpRequest
from django.test import Client, RequestFactory

from storyengine.access import throttle, views
from storyengine.access.throttle import TRIES


class TestLogin:
    def test_the_page_asks_for_the_password(self, client: Client, password: str) -> None:
        response = client.get("/login?next=/admin/")
        page = response.content.decode()
        assert response.status_code == 200
        assert 'type="password"' in page
        assert 'name="next" value="/admin/"' in page

    def test_a_wrong_password_is_refused(self, client: Client, password: str) -> None:
        response = client.post("/login", {"password": "guess"})
        assert response.status_code == 403
        assert "That is not the password." in response.content.decode()
        assert "guess" not in response.content.decode()

    @pytest.mark.parametrize("typed", ["", "x" * 1001])
    def test_what_cannot_be_one_is_refused(self, client: Client, password: str, typed: str) -> None:
        assert client.post("/login", {"password": typed}).status_code == 422

    @pytest.mark.parametrize(
        "wanted", ["https://evil.example/", "//evil.example", "javascript:alert(1)", ""]
    )
    def test_it_leads_nowhere_else(self, client: Client, password: str, wanted: str) -> None:
        response = client.post("/login", {"password": password, "next": wanted})
        assert response["Location"] == "/"

    def test_the_session_gets_a_new_key(self, client: Client, password: str) -> None:
        client.cookies["storyengine_session"] = "chosen-by-an-attacker-0123456789"
        client.post("/login", {"password": password})
        assert client.cookies["storyengine_session"].value != "chosen-by-an-attacker-0123456789"

    def test_it_needs_the_form_of_this_site(self, password: str) -> None:
        client = Client(enforce_csrf_checks=True)
        response = client.post("/login", {"password": password})
        assert response.status_code == 403
        assert "Please reload the page" in response.content.decode()

    def test_guessing_is_paused(self, client: Client, password: str) -> None:
        for _ in range(TRIES):
            assert client.post("/login", {"password": "guess"}).status_code == 403
        assert client.post("/login", {"password": password}).status_code == 429

    def test_guesses_at_once_do_not_pass_the_limit(
        self, password: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        guesses = 3 * TRIES
        tried: list[str] = []
        all_are_here = Barrier(guesses)

        def refuse(_request: HttpRequest, *, username: str, password: str) -> None:
            tried.append(password)

        def guess() -> int:
            request = RequestFactory().post("/login", {"password": "guess"})
            all_are_here.wait(timeout=30)
            return views._try_password(request)[1]

        monkeypatch.setattr(views, "authenticate", refuse)
        monkeypatch.setattr(views, "store_password", lambda: None)
        with ThreadPoolExecutor(guesses) as threads:
            answers = [each.result() for each in [threads.submit(guess) for _ in range(guesses)]]
        assert len(tried) == TRIES
        assert sorted(answers) == [403] * TRIES + [429] * (guesses - TRIES)

    def test_a_guess_counts_before_its_answer_is_known(
        self, client: Client, password: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        counted: list[int] = []

        def look(request: HttpRequest, *, username: str, password: str) -> None:
            counted.append(cache.get(throttle._key(request)))

        monkeypatch.setattr(views, "authenticate", look)
        client.post("/login", {"password": "guess"})
        assert counted == [1]

    def test_right_passwords_do_not_count(self, client: Client, password: str) -> None:
        for _ in range(TRIES + 1):
            assert client.post("/login", {"password": password}).status_code == 302

    def test_a_count_that_runs_out_in_between_begins_anew(
        self, client: Client, password: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        increase = LocMemCache.incr

        def run_out(own: LocMemCache, key: str) -> int:
            monkeypatch.setattr(LocMemCache, "incr", increase)
            own.delete(key)
            return increase(own, key)

        monkeypatch.setattr(LocMemCache, "incr", run_out)
        assert client.post("/login", {"password": "guess"}).status_code == 403

    def test_a_count_that_runs_out_during_a_login_is_no_trouble(
        self, client: Client, password: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def check_slowly(request: HttpRequest, *, username: str, password: str) -> object:
            cache.clear()
            return authenticate(request, username=username, password=password)

        monkeypatch.setattr(views, "authenticate", check_slowly)
        assert client.post("/login", {"password": password}).status_code == 302

    def test_the_pause_is_the_guesser_s_alone(self, client: Client, password: str) -> None:
        for _ in range(TRIES):
            client.post("/login", {"password": "guess"})
        other = Client(REMOTE_ADDR="192.0.2.7")
        assert other.post("/login", {"password": password}).status_code == 302

    def test_the_password_is_stored_hashed(self, client: Client, password: str) -> None:
        client.post("/login", {"password": password})
        assert password not in User.objects.get().password


class TestLogout:
    def test_it_ends_the_login(self, client: Client, password: str) -> None:
        client.post("/login", {"password": password})
        assert client.post("/logout")["Location"] == "/login"
        assert client.get("/admin/").status_code == 302

    def test_it_rejects_get(self, client: Client, password: str) -> None:
        client.post("/login", {"password": password})
        assert client.get("/logout").status_code == 405
