"""Functions by which tests install the lighthouse, the second way to play, and play it through the
API."""

from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from agents.llm.providers.scripted import ScriptedProvider
from sessions.models import Session
from sessions.tests.factories import make_active_chapter
from storyengine.api.tests.calling import address, call
from storyengine.exchange.exporting import export_chapter
from storyengine.tests.lighthouse.state import WORLD, Light

APP = "storyengine.tests.lighthouse"


@pytest.fixture
def lighthouse(settings: Settings) -> None:
    """Install the lighthouse. The program itself adds the apps of MODES to INSTALLED_APPS at its
    start, so this fixture must add the app to both settings."""
    settings.MODES = [*settings.MODES, APP]
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, APP]


@pytest.fixture
def scripted(lighthouse: None, settings: Settings, provider: ScriptedProvider) -> None:
    """Install the lighthouse, and let the scripted model answer."""
    settings.LLM = "scripted"


@pytest.fixture
def htmx() -> Client:
    return Client(headers={"HX-Request": "true"})


@pytest.fixture
def chapter(lighthouse: None) -> Session:
    return begin()


def begin() -> Session:
    return make_active_chapter(mode="lighthouse", selected_agent_slots=(1, 2))


def prompt(chapter: Session, slot: int | None = 1, words: str = "Go on.", **more: Any) -> Any:
    key = more.pop("key", None)
    headers = {"Idempotency_Key": key} if key else {}
    body = {"agent_slot": slot, "user_text": words, **more}
    return call("POST", address(chapter, "prompt"), body, **headers)


def played(chapter: Session, slot: int | None = 1, words: str = "Go on.", **more: Any) -> Any:
    """Play a prompt. Return all events of its turn, thoughts included."""
    answer = prompt(chapter, slot, words, **more)
    assert answer.status_code == 201, answer.content
    return chosen(chapter, answer.json()["prompt_index"])["events"]


def attempts(chapter: Session, number: int) -> Any:
    return call("GET", address(chapter, f"turns/{number}") + "?thoughts=1").json()["attempts"]


def chosen(chapter: Session, number: int) -> Any:
    [attempt] = [one for one in attempts(chapter, number) if one["is_chosen"]]
    return attempt


def changes(chapter: Session, number: int) -> list[tuple[str, Any]]:
    return [(one["kind"], one["payload"]) for one in chosen(chapter, number)["changes"]]


def act(chapter: Session, name: str = "refuel", **arguments: Any) -> Any:
    return call("POST", address(chapter, "act"), {"act": name, "arguments": arguments})


def reroll(chapter: Session, **body: Any) -> Any:
    answer = call("POST", address(chapter, "reroll"), body)
    assert answer.status_code == 201, answer.content
    return answer


def light_of(chapter: Session) -> Light:
    return WORLD.now(Session.objects.get(pk=chapter.pk))


def written(chapter: Session) -> bytes:
    return export_chapter(chapter.pk).to_json()
