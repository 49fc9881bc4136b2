"""Tests that secrets stay out of logs and error pages."""

import logging
import sys
from typing import Any

import pytest
from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path
from django.utils.module_loading import import_string
from pytest_django import Settings

from storyengine.access.log_format import RedactingFormatter

SECRETS = {
    "SECRET_KEY": "secret-key-of-the-test-0123456789-0123456789-0123456789",
    "PASSWORD": "password-of-the-test",
    "API_TOKEN": "token-of-the-test",
    "OPENAI_API_KEY": "sk-key-of-the-test",
}


def break_down(request: HttpRequest) -> HttpResponse:
    """Raise an error that has every secret in its message and in a local variable."""
    carried = " ".join(SECRETS.values())
    raise RuntimeError(carried)


urlpatterns = [path("api/broken", break_down), path("login", break_down, name="log-in")]


@pytest.fixture
def secrets(settings: Settings, db: None) -> list[str]:
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
    assert "in break_down" in lines
    assert not [secret for secret in secrets if secret in lines]


def test_with_debug_they_are_taken_out_of_the_words_that_it_shows(
    client: Client, secrets: list[str], settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    call(client)
    settings.DEBUG = True
    lines = "\n".join(RedactingFormatter().format(record) for record in caplog.records)
    assert "RuntimeError: [secret] [secret]" in lines
    assert not [secret for secret in secrets if secret in lines]


def test_every_handler_redacts(settings: Settings) -> None:
    for handler in settings.LOGGING["handlers"].values():
        formatter = settings.LOGGING["formatters"][handler["formatter"]]
        assert issubclass(import_string(formatter["()"]), RedactingFormatter)


def test_a_database_password_is_a_secret(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(settings.DATABASES["default"], "PASSWORD", "db-password")
    record = logging.LogRecord("x", logging.ERROR, "x", 1, "no route to %s", ("db-password",), None)
    assert RedactingFormatter().format(record) == "no route to [secret]"


@pytest.mark.parametrize("name", ["DATABASE_URL", "CELERY_BROKER_URL"])
@pytest.mark.parametrize(
    "written",
    [
        "redis://gm:p%40ss!word@broker:6379/0",
        "redis://:p%40ss!word@broker",
        "redis://a:other@one;redis://:p%40ss!word@two/0",
    ],
)
def test_the_password_in_an_address_is_a_secret(
    monkeypatch: pytest.MonkeyPatch, name: str, written: str
) -> None:
    monkeypatch.setenv(name, written)
    record = logging.LogRecord("x", logging.ERROR, "x", 1, f"{written} p@ss!word", (), None)
    line = RedactingFormatter().format(record)
    assert "p%40ss!word" not in line
    assert "p@ss!word" not in line
    assert "other" not in line
    assert "[secret]" in line


# The words are a constant, because a traceback shows the source line that raises the error. It then
# shows only the name of the constant.
OWN_WORDS = "The chapel is cold."
REFUSED_ROW = (
    'null value in column "x" violates not-null constraint\n'
    "DETAIL:  Failing row contains (7, The lamp\n\nis dark, null).\n"
)


class ServersError(Exception):
    """A stand-in for psycopg's error, which Django turns into an error of its own with the same
    message."""


def refuse_row() -> None:
    try:
        raise ServersError(REFUSED_ROW)
    except ServersError as error:
        raise IntegrityError(*error.args) from error


@pytest.mark.parametrize("message", ["it broke", "it broke: %s", "Task x raised: %r"])
def test_what_a_database_says_of_a_row_is_left_out(message: str) -> None:
    try:
        refuse_row()
    except IntegrityError as error:
        arguments = (error,) if "%" in message else ()
        info = sys.exc_info()
    record = logging.LogRecord("x", logging.ERROR, "x", 1, message, arguments, info)
    line = RedactingFormatter().format(record)
    assert "lamp" not in line
    assert "dark" not in line
    assert "IntegrityError" in line
    assert "in refuse_row" in line


@pytest.mark.parametrize("is_debug", [True, False])
def test_what_a_database_said_before_is_left_out_as_well(
    settings: Settings, is_debug: bool
) -> None:
    settings.DEBUG = is_debug
    try:
        try:
            refuse_row()
        except IntegrityError as error:
            raise RuntimeError(OWN_WORDS) from error
    except RuntimeError:
        info = sys.exc_info()
    record = logging.LogRecord("x", logging.ERROR, "x", 1, "it broke", (), info)
    line = RedactingFormatter().format(record)
    assert "lamp" not in line
    assert (OWN_WORDS in line) == is_debug


@pytest.mark.parametrize("message", ["it broke", "it broke: %s", "it broke: %r", "%(error)s"])
def test_the_words_of_a_bug_may_be_those_of_a_story(message: str) -> None:
    try:
        int(OWN_WORDS)
    except ValueError as error:
        info = sys.exc_info()
        arguments: Any = {"error": error} if "(" in message else (error,)
    for given in (info, None):
        record = logging.LogRecord("x", logging.ERROR, "x", 1, message, (), given)
        record.args = arguments if "%" in message else ()
        line = RedactingFormatter().format(record)
        assert OWN_WORDS not in line
        assert "ValueError" in line or message == "it broke"
