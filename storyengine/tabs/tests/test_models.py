"""Tests of the page on which servers and models are chosen."""

from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from agents.models import ModelChoice, ModelServer
from agents.providers.scripted import ScriptedProvider

pytestmark = pytest.mark.django_db
MARKED = "sk-marked-key-of-the-test"


@pytest.fixture(autouse=True)
def _nothing_found(monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path) -> None:
    monkeypatch.setattr("storyengine.tabs.models.find_servers", list)
    settings.DATA_FOLDER = tmp_path
    settings.LLM, settings.MODEL, settings.MODEL_BY_AGENT = "openai", "", {}
    settings.OPENAI_BASE_URL = "https://user:hidden-password@api.openai.com/v1"
    settings.CELERY_BROKER_URL = "filesystem://localhost"


def test_a_server_is_added_and_chosen_without_scripts(client: Client) -> None:
    address = "http://127.0.0.1:11434/v1"
    client.post("/models/servers/add", {"title": "Ollama", "address": address})
    client.post("/models/choose", {"agent": "AGENT_9", "server": "ollama", "model": "small"})
    page = client.get("/models/").content.decode()
    assert "Chosen here." in page
    assert 'value="small"' in page
    client.post("/models/choose", {"agent": "AGENT_9", "back": "1"})
    assert not ModelChoice.objects.exists()
    client.post("/models/servers/remove", {"server": "ollama"})
    assert ModelServer.objects.get().is_removed


def test_no_page_and_no_answer_shows_a_secret(client: Client) -> None:
    client.post("/models/servers/add", {"title": "Mine", "address": "https://models.example/v1"})
    client.post("/models/servers/key", {"server": "mine", "key": MARKED})
    pages = [client.get(path) for path in ("/models/", "/api/servers", "/api/models")]
    pages.append(client.get("/models/?list=mine"))
    for answer in pages:
        assert answer.status_code == 200
        assert MARKED not in answer.content.decode()
        assert "hidden-password" not in answer.content.decode()
    assert "was pasted here" in pages[0].content.decode()


def test_a_host_is_asked_nothing_before_it_is_allowed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storyengine.tabs.models.names_at", lambda _server: pytest.fail("asked"))
    client.post("/models/servers/add", {"title": "Mine", "address": "https://models.example/v1"})
    assert "Not allowed yet" in client.get("/models/?list=mine").content.decode()
    assert "models.example" in client.get("/consent/?host=models.example").content.decode()


def test_a_test_says_its_result_in_words_and_escapes_the_models(
    client: Client, provider: ScriptedProvider
) -> None:
    provider.enqueue("<b>Ready</b>")
    page = client.post("/models/test", {"agent": "AGENT_9"}).content.decode()
    assert "Works." in page
    assert "&lt;b&gt;Ready" in page
