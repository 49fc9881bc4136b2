"""Tests that wrong API tokens are counted and logged, and that too many of them cause a pause.

Wrong passwords are counted separately.
"""

import logging
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from asgiref.sync import async_to_sync
from axes.models import AccessAttempt
from django.conf import settings as django_settings
from django.core.cache import cache
from django.db import OperationalError, connections
from django.db.models import F
from django.test import AsyncClient, Client
from pytest_django import Settings

from storyengine.access import api_access

pytestmark = pytest.mark.django_db

TRIES = django_settings.AXES_FAILURE_LIMIT
TOKEN = "token-of-the-test-0123456789"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
WRONG = {"Authorization": "Bearer a guess"}
ASKS = ["/api/openapi.json", "/api/session", "/metrics", "/readyz"]


@pytest.fixture(autouse=True)
def _token(settings: Settings, password: str) -> None:
    settings.API_TOKEN = TOKEN


def guess(client: Client, path: str = "/api/openapi.json", times: int = TRIES) -> list[int]:
    return [client.get(path, headers=WRONG).status_code for _ in range(times)]


def test_guessing_is_paused_in_the_api_s_own_form(client: Client) -> None:
    assert guess(client) == [401] * (TRIES - 1) + [429]
    for headers in (RIGHT, WRONG):
        response = client.get("/api/session", headers=headers)
        assert response.status_code == 429
        assert response["Content-Type"] == "application/problem+json"
        assert response["Retry-After"] == "300"
        assert "Wait 5 minutes" in response.json()["detail"]
        assert TOKEN not in response.content.decode()


@pytest.mark.parametrize("path", ASKS)
def test_wherever_it_is_asked_for(client: Client, path: str) -> None:
    """The pause is for every address that reads a token. One of them is /readyz, which answers
    without a token, and gives more details to a caller with the right one."""
    guess(client, path)
    assert client.get("/api/session", headers=RIGHT).status_code == 429
    if path == "/readyz":
        assert "provider" not in client.get(path, headers=RIGHT).json()


def test_under_asgi_too(async_client: AsyncClient) -> None:
    for _ in range(TRIES):
        async_to_sync(async_client.get)("/api/session", headers=WRONG)
    assert async_to_sync(async_client.get)("/api/session", headers=RIGHT).status_code == 429


def test_neither_another_browser_nor_a_restart_ends_it(client: Client) -> None:
    for at in range(TRIES):
        Client(headers={"User-Agent": f"Program {at}"}).get("/api/session", headers=WRONG)
    cache.clear()
    assert client.get("/api/session", headers=RIGHT).status_code == 429


def test_the_pause_ends(client: Client) -> None:
    guess(client)
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - django_settings.AXES_COOLOFF_TIME)
    assert client.get("/api/openapi.json", headers=RIGHT).status_code == 200


def test_it_is_the_guesser_s_alone(client: Client, password: str) -> None:
    """During the pause, the right token works from other addresses, and the password works from the
    guesser's address."""
    guess(client)
    other = Client(REMOTE_ADDR="192.0.2.7")
    assert other.get("/api/openapi.json", headers=RIGHT).status_code == 200
    assert client.post("/login", {"password": password}).status_code == 302


def test_wrong_passwords_pause_no_program(client: Client) -> None:
    for _ in range(TRIES):
        client.post("/login", {"password": "guess"})
    assert client.get("/api/openapi.json", headers=RIGHT).status_code == 200


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer ", f"Basic {TOKEN}"])
def test_none_is_no_guess(client: Client, authorization: str) -> None:
    for _ in range(TRIES):
        client.get("/api/session", headers={"Authorization": authorization})
    assert not AccessAttempt.objects.exists()


def test_each_is_logged_with_its_address_and_nothing_of_it_is_kept(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger=api_access.logger.name):
        guess(client, "/api/session?q=words", times=TRIES + 1)
    lines = [getattr(record, "fields", {}) for record in caplog.records]
    assert [line["tried"] for line in lines] == [True] * TRIES + [False]
    assert {line["address"] for line in lines} == {"127.0.0.1"}
    assert {record.msg for record in caplog.records} == {"token refused"}
    [kept] = AccessAttempt.objects.values()
    assert "guess" not in str(kept)
    assert "words" not in str(kept)


def test_a_database_that_is_away_keeps_nobody_out(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a database the program cannot count wrong tokens. It still refuses wrong tokens and
    accepts the right token."""

    def fail(*args: object) -> bool:
        raise OperationalError

    monkeypatch.setattr("axes.handlers.database.AxesDatabaseHandler.get_failures", fail)
    assert client.get("/api/openapi.json", headers=RIGHT).status_code == 200
    assert client.get("/api/openapi.json", headers=WRONG).status_code == 401


@pytest.mark.django_db(transaction=True)
def test_guesses_at_once_do_not_pass_the_limit() -> None:
    guesses = 3 * TRIES
    all_are_here = Barrier(guesses)

    def guess_once() -> int:
        all_are_here.wait(timeout=30)
        try:
            return Client().get("/api/openapi.json", headers=WRONG).status_code
        finally:
            connections.close_all()

    with ThreadPoolExecutor(guesses) as threads:
        answers = [each.result() for each in [threads.submit(guess_once) for _ in range(guesses)]]
    assert sorted(answers) == [401] * (TRIES - 1) + [429] * (guesses - TRIES + 1)


@pytest.mark.weekly
def test_right_ones_forgive_no_wrong_ones(client: Client) -> None:
    """The right token does not reset the number of wrong ones, because a program with the right
    token may have the same address as somebody who guesses."""
    for _ in range(TRIES - 1):
        guess(client, times=1)
        assert client.get("/api/openapi.json", headers=RIGHT).status_code == 200
    assert guess(client, times=1) == [429]
