"""Tests of the conditions under which the API answers a caller."""

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client
from pytest_django import Settings

from storyengine.access import api_access
from storyengine.access.api_access import API_PREFIX, READABLE

READ = "/api/openapi.json"
WRITE = "/api/session"
TOKEN = "token-of-the-test-0123456789"
BEARER = f"Bearer {TOKEN}"


@pytest.mark.django_db
@pytest.mark.usefixtures("no_password")
class TestWithoutPassword:
    def test_a_program_on_this_machine_is_served(self) -> None:
        client = Client(enforce_csrf_checks=True)
        assert client.get(READ).status_code == 200
        assert client.post(WRITE, "{}", content_type="application/json").status_code == 201

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://testserver:3000"},
            {"Origin": "https://testserver"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
        ],
    )
    @pytest.mark.parametrize("path", [READ, WRITE, "/api/no-such-thing"])
    def test_other_sites_are_refused(
        self, client: Client, path: str, headers: dict[str, str]
    ) -> None:
        for response in (
            client.get(path, headers=headers),
            client.post(path, "{}", content_type="application/json", headers=headers),
        ):
            assert response.status_code == 403
            assert response["Content-Type"] == "application/problem+json"
            assert response.json()["status"] == 403

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "http://testserver", "Sec-Fetch-Site": "same-origin"},
            {"Sec-Fetch-Site": "none"},
        ],
    )
    def test_its_own_pages_are_served(self, client: Client, headers: dict[str, str]) -> None:
        assert client.get(READ, headers=headers).status_code == 200

    @pytest.mark.parametrize(
        "content_type",
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""],
    )
    def test_a_body_must_be_json(self, client: Client, content_type: str) -> None:
        response = client.post(WRITE, "{}", content_type=content_type)
        assert response.status_code == 415
        assert response["Content-Type"] == "application/problem+json"

    def test_a_body_of_unknown_length_must_be_json(self, async_client: AsyncClient) -> None:
        response = async_to_sync(async_client.post)(
            WRITE,
            "",
            content_type="text/plain",
            headers={"Transfer-Encoding": "chunked"},
        )
        assert response.status_code == 415

    def test_no_body_needs_no_type(self, client: Client) -> None:
        response = client.generic("POST", "/api/no-such-thing")
        assert response.status_code == 404


@pytest.mark.django_db
@pytest.mark.usefixtures("no_password")
class TestTokenWithoutPassword:
    @pytest.fixture(autouse=True)
    def _token(self, settings: Settings) -> None:
        settings.API_TOKEN = TOKEN

    @pytest.mark.parametrize("authorization", ["", "Bearer wrong", f"Basic {TOKEN}"])
    @pytest.mark.parametrize("path", ["/api/session", "/api/no-such-thing"])
    def test_it_is_asked_for(self, client: Client, path: str, authorization: str) -> None:
        for method in ("GET", "POST", "DELETE"):
            response = client.generic(method, path, headers={"Authorization": authorization})
            assert response.status_code == 401
            assert "STORYENGINE_API_TOKEN" in response.json()["detail"]

    def test_it_opens(self, client: Client) -> None:
        opened = client.post(
            WRITE, "{}", content_type="application/json", headers={"Authorization": BEARER}
        )
        assert opened.status_code == 201

    @pytest.mark.parametrize("path", ["/", "/admin/", *READABLE])
    def test_who_sits_before_this_machine_needs_none(self, client: Client, path: str) -> None:
        assert client.get(path).status_code == 200

    def test_other_sites_are_refused_all_the_same(self, client: Client) -> None:
        headers = {"Authorization": BEARER, "Origin": "https://evil.example"}
        assert client.get(READ, headers=headers).status_code == 403


@pytest.mark.usefixtures("password")
class TestWithPassword:
    def test_without_a_token_it_is_closed(self, client: Client, settings: Settings) -> None:
        settings.API_TOKEN = ""
        for headers in ({}, {"Authorization": "Bearer "}):
            response = client.get(READ, headers=headers)
            assert response.status_code == 401
            assert "STORYENGINE_API_TOKEN" in response.json()["detail"]

    @pytest.mark.parametrize(
        "authorization",
        ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer é"],
    )
    @pytest.mark.parametrize("path", [READ, WRITE, "/api/docs", "/api/no-such-thing"])
    def test_the_token_is_needed(
        self, client: Client, settings: Settings, path: str, authorization: str
    ) -> None:
        settings.API_TOKEN = TOKEN
        response = client.get(path, headers={"Authorization": authorization})
        assert response.status_code == 401
        assert response["WWW-Authenticate"].startswith("Bearer")
        assert TOKEN not in response.content.decode()

    @pytest.mark.parametrize("given", [TOKEN, "wrong", TOKEN[:-1]])
    def test_the_comparison_tells_nothing_by_its_time(
        self, client: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch, given: str
    ) -> None:
        """Every token is compared in constant time, because only a function of Django decides
        whether the token is right."""
        compared = []

        def compare(one: str, other: str) -> bool:
            compared.append({one, other})
            return given != TOKEN

        settings.API_TOKEN = TOKEN
        monkeypatch.setattr(api_access, "constant_time_compare", compare)
        response = client.get(READ, headers={"Authorization": f"Bearer {given}"})
        assert response.status_code == (401 if given == TOKEN else 200)
        assert {given, TOKEN} in compared

    def test_the_token_opens(self, settings: Settings) -> None:
        settings.API_TOKEN = TOKEN
        client = Client(enforce_csrf_checks=True, headers={"Authorization": f"Bearer {TOKEN}"})
        assert client.get(READ).status_code == 200
        assert client.post(WRITE, "{}", content_type="application/json").status_code == 201

    @pytest.mark.parametrize("path", READABLE)
    @pytest.mark.parametrize("token", [TOKEN, ""])
    def test_a_login_opens_its_documentation_and_the_metrics(
        self, client: Client, settings: Settings, password: str, path: str, token: str
    ) -> None:
        settings.API_TOKEN = token
        assert client.get(path).status_code == 401
        client.post("/login", {"password": password})
        assert client.get(path).status_code == 200
        assert client.head(path).status_code in (200, 405)

    def test_a_login_opens_its_documentation_under_asgi(
        self, async_client: AsyncClient, password: str
    ) -> None:
        assert async_to_sync(async_client.get)("/api/docs").status_code == 401
        async_to_sync(async_client.post)("/login", {"password": password})
        assert async_to_sync(async_client.get)("/api/docs").status_code == 200

    @pytest.mark.parametrize("path", [WRITE, "/api/no-such-thing", "/api/docs/", "/api/docs/x"])
    def test_a_login_opens_nothing_else(
        self, client: Client, settings: Settings, password: str, path: str
    ) -> None:
        settings.API_TOKEN = TOKEN
        client.post("/login", {"password": password})
        for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS"):
            assert client.generic(method, path).status_code == 401

    @pytest.mark.parametrize("path", READABLE)
    def test_the_token_opens_them_as_well(
        self, client: Client, settings: Settings, password: str, path: str
    ) -> None:
        settings.API_TOKEN = TOKEN
        assert client.get(path, headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert client.get(path, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200

    @pytest.mark.parametrize("path", [path for path in READABLE if path.startswith(API_PREFIX)])
    def test_a_login_only_reads_the_documentation(
        self, client: Client, settings: Settings, password: str, path: str
    ) -> None:
        settings.API_TOKEN = TOKEN
        client.post("/login", {"password": password})
        assert client.post(path, "{}", content_type="application/json").status_code == 401

    def test_the_token_is_needed_under_asgi(
        self, async_client: AsyncClient, settings: Settings
    ) -> None:
        settings.API_TOKEN = TOKEN
        assert async_to_sync(async_client.get)(READ).status_code == 401
        opened = async_to_sync(async_client.get)(READ, headers={"Authorization": f"bearer {TOKEN}"})
        assert opened.status_code == 200
