"""Secrets stay out of logs and error pages."""

import logging

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path
from pytest_django import Settings

from storyengine.access.redaction import RedactingFormatter

SECRETS = {
    "SECRET_KEY": "secret-key-of-the-test-0123456789-0123456789-0123456789",
    "PASSWORD": "password-of-the-test",
    "API_TOKEN": "token-of-the-test",
    "OPENAI_API_KEY": "sk-key-of-the-test",
}


def break_down(request: HttpRequest) -> HttpResponse:
    """A bug that carries every secret in its message and in its frame."""
    carried = " ".join(SECRETS.values())
    raise RuntimeError(carried)


urlpatterns = [path("api/broken", break_down), path("login", break_down, name="log-in")]


@pytest.fixture
def secrets(settings: Settings) -> list[str]:
    for name, value in SECRETS.items():
        setattr(settings, name, value)
    settings.ROOT_URLCONF = __name__
    settings.DEBUG = False
    return list(SECRETS.values())


def call(client: Client) -> str:
    client.raise_request_exception = False
    response = client.get(
        "/api/broken", headers={"Authorization": f"Bearer {SECRETS['API_TOKEN']}"}
    )
    assert response.status_code == 500
    return response.content.decode()


def test_an_error_page_shows_none(client: Client, secrets: list[str]) -> None:
    page = call(client)
    assert not [secret for secret in secrets if secret in page]
    assert "RuntimeError" not in page


def test_the_log_of_an_error_shows_none(
    client: Client, secrets: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    call(client)
    formatter = RedactingFormatter("%(levelname)s %(message)s")
    lines = "\n".join(formatter.format(record) for record in caplog.records)
    assert "RuntimeError" in lines
    assert "[secret]" in lines
    assert not [secret for secret in secrets if secret in lines]


def test_every_handler_redacts(settings: Settings) -> None:
    for handler in settings.LOGGING["handlers"].values():
        formatter = settings.LOGGING["formatters"][handler["formatter"]]
        assert formatter["()"].endswith("RedactingFormatter")


def test_a_database_password_is_a_secret(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(settings.DATABASES["default"], "PASSWORD", "db-password")
    record = logging.LogRecord("x", logging.ERROR, "x", 1, "no route to %s", ("db-password",), None)
    assert RedactingFormatter().format(record) == "no route to [secret]"


def test_a_short_value_does_not_garble_the_log(settings: Settings) -> None:
    settings.PASSWORD = "abc"
    record = logging.LogRecord("x", logging.ERROR, "x", 1, "alphabet: abcdef", (), None)
    assert RedactingFormatter().format(record) == "alphabet: abcdef"
