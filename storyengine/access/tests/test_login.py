"""The login page."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

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
