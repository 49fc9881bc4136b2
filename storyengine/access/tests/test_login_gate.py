"""Tests of the pages that can be seen with and without a login."""

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import AsyncClient, Client
from django.urls import URLPattern, URLResolver, get_resolver
from pytest_django import DjangoAssertNumQueries, Settings

from storyengine.access.game_master import store_password_once

UUID = "6fa459ea-ee8a-3ca4-894e-db77e160355e"
OPEN_PATHS = {"healthz", "readyz", "login"}


def page_paths(patterns: list[URLPattern | URLResolver], prefix: str = "") -> list[str]:
    """Return the route of every address in the URLconf."""
    paths = []
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            paths += page_paths(pattern.url_patterns, route)
        else:
            paths.append(route)
    return paths


def concrete(route: str) -> str:
    for parameter in ("<uuid:session_id>", "<uuid:attempt_id>", "<uuid:draft_id>"):
        route = route.replace(parameter, UUID)
    return "/" + route


GUARDED = [
    concrete(route)
    for route in page_paths(get_resolver().url_patterns)
    # The address /metrics refuses as the API does (see test_api_access).
    if not route.startswith(("admin/", "api/", "metrics")) and route not in OPEN_PATHS
] + ["/admin/", "/admin/story_sessions/event/", "/admin/login/", "/no-such-page"]


@pytest.mark.django_db
@pytest.mark.usefixtures("no_password")
class TestWithoutPassword:
    def test_the_admin_opens_at_once(self, client: Client) -> None:
        assert client.get("/admin/").status_code == 200
        assert User.objects.get().username == "gm"

    def test_the_admin_opens_under_asgi(self, async_client: AsyncClient) -> None:
        response = async_to_sync(async_client.get)("/admin/")
        assert response.status_code == 200

    @pytest.mark.parametrize("host", ["evil.example", "192.168.1.7:8000", "localhost.evil.example"])
    @pytest.mark.parametrize("path", ["/", "/healthz", "/api/openapi.json", "/no-such-page"])
    def test_a_foreign_host_is_refused(self, client: Client, path: str, host: str) -> None:
        assert client.get(path, headers={"Host": host}).status_code == 400

    @pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1", "[::1]:8000"])
    def test_loopback_hosts_are_served(self, client: Client, host: str) -> None:
        assert client.get("/healthz", headers={"Host": host}).status_code == 200


class TestWithPassword:
    @pytest.mark.parametrize("path", GUARDED)
    def test_every_address_asks_for_it(self, client: Client, password: str, path: str) -> None:
        for response in (client.get(path), client.post(path)):
            assert response.status_code == 302
            assert response["Location"].startswith("/login?next=")

    @pytest.mark.parametrize("path", GUARDED)
    def test_every_address_asks_for_it_under_asgi(
        self, async_client: AsyncClient, password: str, path: str
    ) -> None:
        response = async_to_sync(async_client.get)(path)
        assert response.status_code == 302

    def test_a_stream_is_refused_without_a_redirect(self, client: Client, password: str) -> None:
        response = client.get("/", headers={"Accept": "text/event-stream"})
        assert response.status_code == 401

    def test_htmx_is_sent_to_the_login_page_as_a_whole(self, client: Client, password: str) -> None:
        response = client.get(
            "/model-status", headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/a"}
        )
        assert response.status_code == 401
        assert response["HX-Redirect"] == "/login?next=http%3A%2F%2Ftestserver%2Fa"

    def test_the_right_password_opens_pages_and_admin(self, client: Client, password: str) -> None:
        response = client.post("/login", {"password": password, "next": "/admin/"})
        assert response["Location"] == "/admin/"
        assert client.get("/admin/").status_code == 200

    def test_the_right_password_opens_under_asgi(
        self, async_client: AsyncClient, password: str
    ) -> None:
        async_to_sync(async_client.post)("/login", {"password": password})
        response = async_to_sync(async_client.get)("/admin/")
        assert response.status_code == 200

    def test_another_password_ends_old_logins(
        self, client: Client, password: str, settings: Settings
    ) -> None:
        client.post("/login", {"password": password})
        settings.PASSWORD = "a new one"
        store_password_once.cache_clear()  # A restart with the new password also clears this cache.
        assert client.get("/admin/").status_code == 302
        assert client.post("/login", {"password": password}).status_code == 403
        assert client.post("/login", {"password": "a new one"}).status_code == 302


class TestHealthz:
    def test_it_answers(self, client: Client) -> None:
        response = client.get("/healthz")
        assert response.json() == {"status": "ok"}

    @pytest.mark.django_db
    def test_it_needs_no_database_and_no_login(
        self,
        async_client: AsyncClient,
        password: str,
        django_assert_num_queries: DjangoAssertNumQueries,
    ) -> None:
        with django_assert_num_queries(0):
            response = async_to_sync(async_client.get)(
                "/healthz", headers={"Cookie": "storyengine_session=x"}
            )
        assert response.status_code == 200

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
    def test_it_is_for_reading_only(self, client: Client, method: str) -> None:
        assert client.generic(method, "/healthz").status_code == 405
