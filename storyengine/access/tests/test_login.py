from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier, Event
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.core.cache import cache
from django.db import connections
from django.test import AsyncClient, Client, RequestFactory

from storyengine.access import views

TRIES = settings.AXES_FAILURE_LIMIT


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets each password that the program compares with the right one."""
    compared: list[str] = []
    authenticate = ModelBackend.authenticate

    def note(self: ModelBackend, request: Any, username: Any, password: Any, **kwargs: Any) -> Any:
        compared.append(password)
        return authenticate(self, request, username, password, **kwargs)

    monkeypatch.setattr(ModelBackend, "authenticate", note)
    return compared


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
        """An attacker may have put a session of his own into the browser. The login replaces and
        deletes this session."""
        planted = SessionStore()
        planted["planted"] = True
        planted.save()
        key = planted.session_key or ""
        client.cookies["storyengine_session"] = key
        client.post("/login", {"password": password})
        assert client.cookies["storyengine_session"].value != key
        assert client.get("/admin/").status_code == 200
        assert not SessionStore().exists(key)

    def test_it_needs_the_form_of_this_site(self, password: str) -> None:
        client = Client(enforce_csrf_checks=True)
        response = client.post("/login", {"password": password})
        assert response.status_code == 403
        assert "Please reload the page" in response.content.decode()

    def test_guessing_is_paused(self, client: Client, password: str) -> None:
        answers = [client.post("/login", {"password": "guess"}).status_code for _ in range(TRIES)]
        assert answers == [403] * (TRIES - 1) + [429]
        response = client.post("/login", {"password": password})
        assert response.status_code == 429
        assert "Wait five minutes" in response.content.decode()

    def test_while_it_is_no_password_is_looked_at(
        self, client: Client, password: str, looked_at: list[str]
    ) -> None:
        for _ in range(TRIES + 5):
            client.post("/login", {"password": "guess"})
        assert len(looked_at) == TRIES

    def test_another_browser_or_process_does_not_end_it(
        self, client: Client, password: str
    ) -> None:
        for at in range(TRIES):
            Client(headers={"User-Agent": f"Browser {at}"}).post("/login", {"password": "guess"})
        # A restart clears the cache. The number of wrong passwords remains, because it is in the
        # database.
        cache.clear()
        assert client.post("/login", {"password": password}).status_code == 429

    @pytest.mark.django_db(transaction=True)
    def test_guesses_at_once_do_not_pass_the_limit(
        self, password: str, looked_at: list[str]
    ) -> None:
        guesses = 3 * TRIES
        all_are_here = Barrier(guesses)

        def guess() -> int:
            all_are_here.wait(timeout=30)
            try:
                return Client().post("/login", {"password": "guess"}).status_code
            finally:
                connections.close_all()

        with ThreadPoolExecutor(guesses) as threads:
            answers = [each.result() for each in [threads.submit(guess) for _ in range(guesses)]]
        assert len(looked_at) == TRIES
        assert sorted(answers) == [403] * (TRIES - 1) + [429] * (guesses - TRIES + 1)

    @pytest.mark.django_db(transaction=True)
    def test_a_right_one_does_not_wait_for_those_of_others(
        self, password: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        is_looked_at, may_go_on = Event(), Event()
        authenticate = ModelBackend.authenticate

        def hold(self: ModelBackend, request: Any, username: Any, password: Any) -> Any:
            if password == "guess":
                is_looked_at.set()
                assert may_go_on.wait(timeout=30)
            return authenticate(self, request, username, password)

        monkeypatch.setattr(ModelBackend, "authenticate", hold)

        def guess() -> int:
            try:
                return Client().post("/login", {"password": "guess"}).status_code
            finally:
                connections.close_all()

        with ThreadPoolExecutor(1) as threads:
            guessed = threads.submit(guess)
            try:
                assert is_looked_at.wait(timeout=30)
                other = Client(REMOTE_ADDR="192.0.2.7")
                assert other.post("/login", {"password": password}).status_code == 302
                assert not guessed.done()
            finally:
                may_go_on.set()
            assert guessed.result(timeout=30) == 403

    def test_one_that_was_guessed_among_many_overtakes_none(
        self, client: Client, password: str, rf: RequestFactory
    ) -> None:
        with ExitStack() as stack:
            for _ in range(TRIES):
                stack.enter_context(views._waiting.one_more(rf.get("/")))
            assert client.post("/login", {"password": password}).status_code == 429
            other = Client(REMOTE_ADDR="192.0.2.7")
            assert other.post("/login", {"password": password}).status_code == 302
        assert client.post("/login", {"password": password}).status_code == 302

    def test_a_right_one_forgives_the_wrong_ones(self, client: Client, password: str) -> None:
        for _ in range(2):
            for _ in range(TRIES - 1):
                client.post("/login", {"password": "guess"})
            assert client.post("/login", {"password": password}).status_code == 302

    def test_the_pause_is_the_guesser_s_alone(self, client: Client, password: str) -> None:
        for _ in range(TRIES):
            client.post("/login", {"password": "guess"})
        other = Client(REMOTE_ADDR="192.0.2.7")
        assert other.post("/login", {"password": password}).status_code == 302

    def test_what_is_kept_of_a_guess_has_no_password(self, client: Client, password: str) -> None:
        client.post("/login", {"password": "almost the right one"})
        client.post("/login", {"password": "guess", "filler": "x" * 20_000})
        [kept] = AccessAttempt.objects.values()
        assert "almost" not in str(kept)
        assert "xxx" not in str(kept)

    def test_a_guess_under_asgi_counts_too(self, async_client: AsyncClient, password: str) -> None:
        for _ in range(TRIES):
            async_to_sync(async_client.post)("/login", {"password": "guess"})
        response = async_to_sync(async_client.post)("/login", {"password": password})
        assert response.status_code == 429

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
