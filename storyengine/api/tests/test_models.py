"""Tests of servers and choices of models by the API."""

from pathlib import Path

import pytest
from pytest_django import Settings

from storyengine.api.tests.calling import assert_problem, call

pytestmark = pytest.mark.django_db
MARKED = "sk-marked-key-of-the-test"


@pytest.fixture(autouse=True)
def _hosted(settings: Settings, tmp_path: Path) -> None:
    settings.DATA_FOLDER = tmp_path
    settings.LLM, settings.MODEL, settings.MODEL_BY_AGENT = "openai", "", {}
    settings.CELERY_BROKER_URL = "filesystem://localhost"


def test_the_api_stores_choices_and_takes_them_back() -> None:
    new = {"title": "Mine", "address": "https://models.example/v1", "key": MARKED}
    added = call("POST", "/api/servers", new)
    assert added.status_code == 201
    assert added.json()["servers"][-1] == {
        "name": "mine",
        "title": "Mine",
        "address": "https://models.example/v1",
        "host": "models.example",
        "has_key": True,
    }
    chosen = {"agents": [{"agent": "9", "server": "mine", "model": "m"}]}
    read = call("PUT", "/api/models", chosen).json()["agents"]
    assert {"agent": "9", "server": "mine", "model": "m", "source": "agent"} in read
    wrong = {"agents": [{"agent": "9", "server": "nowhere", "model": "m"}]}
    assert_problem(call("PUT", "/api/models", wrong), 422, "invalid-input")
    back = call("PUT", "/api/models", {"agents": [{"agent": "9"}]}).json()["agents"]
    assert {one["source"] for one in back} == {"default"}
    assert call("DELETE", "/api/servers", {"name": "mine"}).status_code == 200
    assert_problem(call("DELETE", "/api/servers", {"name": "environment"}), 422, "invalid-input")
