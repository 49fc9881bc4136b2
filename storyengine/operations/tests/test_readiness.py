"""Tests that the readiness check answers in time and makes few queries."""

import errno
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from agents.calling.consent import grant
from agents.flows.tests.playing import play
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from agents.running.heartbeats import DEAD_AFTER, store_heartbeat
from agents.running.jobs import queue_job
from sessions import storage
from sessions.tests.factories import make_active_chapter
from storyengine.operations import readiness
from storyengine.operations.readiness import WAITS_TOO_LONG, look_at_broker
from storyengine.stack import storage_refusals
from storyengine.stack.storage_refusals import find_storage_refusal
from testing.program import wait_until

# The readiness check reads the database in a thread of its own, which sees only rows that are
# committed.
pytestmark = pytest.mark.django_db(transaction=True)

TOKEN = "token-of-the-test-0123456789"


@pytest.fixture(autouse=True)
def _asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the results of earlier checks, so that each test runs the checks again."""
    monkeypatch.setattr(readiness, "_HOLDS_SECONDS", 0.0)
    monkeypatch.setattr(readiness, "_rows", readiness._Question(readiness._ask_database))
    monkeypatch.setattr(readiness, "_broker", readiness._Question(readiness._ask_broker))
    monkeypatch.setattr(readiness, "_disk", readiness._Question(readiness._ask_disk))
    monkeypatch.setattr(storage_refusals, "_met_full_disk_at", float("-inf"))


@pytest.fixture(autouse=True)
def _worker(settings: Settings) -> None:
    settings.PASSWORD = ""
    store_heartbeat("celery@test", {})


def ask(client: Client, status: int, **headers: str) -> dict[str, Any]:
    response = client.get("/readyz", headers=headers)
    assert response.status_code == status
    answer: dict[str, Any] = response.json()
    assert answer["status"] == ("ready" if status == 200 else "not ready")
    return answer


def failing(answer: dict[str, Any]) -> list[str]:
    return [name for name, check in answer["checks"].items() if not check["ok"]]


def test_a_program_that_works_is_ready(client: Client) -> None:
    answer = ask(client, 200)
    assert list(answer["checks"]) == ["database", "worker", "queue", "broker", "disk"]
    assert all(check["ms"] >= 0 for check in answer["checks"].values())
    assert answer["checks"]["worker"]["last_pulse_seconds"] >= 0


def test_without_a_worker_it_is_not(client: Client) -> None:
    store_heartbeat("celery@test", {}, is_last=True)
    answer = ask(client, 503)
    assert failing(answer) == ["worker"]
    assert answer["checks"]["worker"]["last_pulse_seconds"] >= DEAD_AFTER.total_seconds()


def test_a_job_may_wait_for_a_while(client: Client) -> None:
    queue_job(make_active_chapter().pk, Job.Kind.NARRATE, "k")
    Job.objects.update(run_after=timezone.now() - timedelta(seconds=60))
    assert 60 <= ask(client, 200)["checks"]["queue"]["oldest_waiting_seconds"] < 120
    Job.objects.update(run_after=timezone.now() - WAITS_TOO_LONG)
    assert failing(ask(client, 503)) == ["queue"]


def test_without_a_database_it_says_so(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OperationalError("the server at db.example is away")

    monkeypatch.setattr(readiness, "since_last_heartbeat", fail)
    answer = ask(client, 503)
    assert failing(answer) == ["database", "worker", "queue"]
    assert "example" not in str(answer)


class TestDisk:
    def test_one_without_room(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as full:
            full.setattr(storage, "LEAST_FREE_BYTES", 1 << 60)
            assert failing(ask(client, 503)) == ["disk"]
        assert ask(client, 200)["checks"]["disk"]["free_mb"] > 0

    def test_one_elsewhere_of_which_the_database_tells(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert find_storage_refusal(OSError(errno.ENOSPC, "No space left on device"))
        assert failing(ask(client, 503)) == ["disk"]
        monkeypatch.setattr(readiness, "_FULL_FOR_SECONDS", 0.0)
        ask(client, 200)


class TestBroker:
    def test_a_folder_that_is_away(
        self, client: Client, settings: Settings, tmp_path: Path
    ) -> None:
        settings.CELERY_BROKER_URL = "filesystem://localhost"
        settings.BROKER_FOLDER = tmp_path / "no-such"
        assert failing(ask(client, 503)) == ["broker"]
        (settings.BROKER_FOLDER / "messages").mkdir(parents=True)
        ask(client, 200)

    def test_a_server_that_is_away(self, settings: Settings, free_port: int) -> None:
        settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{free_port}/0"
        assert not look_at_broker()


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Yield an event. Until the event is set, the database does not answer.

    The event's attribute `asked` counts how often the database was asked.
    """
    answers = threading.Event()
    monkeypatch.setattr(readiness, "ANSWER_SECONDS", 0.05)

    def hang() -> Any:
        answers.asked = getattr(answers, "asked", 0) + 1  # type: ignore[attr-defined]
        answers.wait(30)
        return readiness._without_database(0)

    monkeypatch.setattr(readiness, "_rows", readiness._Question(hang))
    yield answers
    answers.set()


def test_a_database_that_hangs_is_asked_once_and_not_waited_for(
    client: Client, hanging: threading.Event
) -> None:
    for _ in range(3):
        assert "database" in failing(ask(client, 503))
    wait_until(lambda: hasattr(hanging, "asked"), "the question to be put", seconds=30)
    assert hanging.asked == 1  # type: ignore[attr-defined]


class TestProvider:
    def test_it_is_information_and_never_asked(
        self, client: Client, settings: Settings, provider: ScriptedProvider
    ) -> None:
        settings.LLM = "openai"
        provider.host = "api.example"
        assert ask(client, 200)["provider"] == {"state": "not allowed yet"}
        grant("api.example")
        play(make_active_chapter())
        calls = len(provider.history)
        told = ask(client, 200)["provider"]
        assert (told["state"], told["last_call"]) == ("allowed", "finished")
        assert len(provider.history) == calls


@pytest.mark.parametrize("is_up", [True, False])
def test_a_stranger_learns_no_figures(client: Client, settings: Settings, is_up: bool) -> None:
    settings.PASSWORD, settings.API_TOKEN = "correct horse battery", TOKEN
    store_heartbeat("celery@test", {}, is_last=not is_up)
    answer = ask(client, 200 if is_up else 503)
    assert answer.keys() == {"status", "checks"}
    assert all(check.keys() == {"ok"} for check in answer["checks"].values())
    known = ask(client, 200 if is_up else 503, Authorization=f"Bearer {TOKEN}")
    assert "provider" in known
    assert "ms" in known["checks"]["database"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_is_for_reading_only(client: Client, method: str) -> None:
    assert client.generic(method, "/readyz").status_code == 405
