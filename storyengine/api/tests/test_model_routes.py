"""Tests of servers and choices of models by the API."""

from decimal import Decimal
from pathlib import Path

import pytest
from pytest_django import Settings

from agents.calling.servers.caps import NO_CAPS, stored_caps
from sessions.tests.factories import make_active_chapter
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


def test_a_chapter_has_models_of_its_own_in_the_same_form() -> None:
    chapter = make_active_chapter()
    path = f"/api/session/{chapter.pk}/models"
    [first, *_] = call("GET", path).json()["agents"]
    assert first == {
        "agent": "1",
        "server": "environment",
        "model": first["model"],
        "source": "default",
        "temperature": None,
        "top_p": None,
        "max_output_tokens": None,
        "stop": [],
    }
    own = {"agent": "9", "model": "m", "temperature": 1, "stop": ["END"], "max_output_tokens": 90}
    [*_, last] = call("PUT", path, {"agents": [own]}).json()["agents"]
    assert last == {
        **own,
        "server": "environment",
        "source": "chapter",
        "temperature": 1.0,
        "top_p": None,
    }
    assert call("GET", path).json()["agents"][-1] == last
    # A field that is left out is not set any more, and an agent that is not named keeps all.
    call("PUT", path, {"agents": [{"agent": "8", "model": "m8"}]})
    [*_, last] = call("PUT", path, {"agents": [{"agent": "9", "top_p": 0.5, "model": "m"}]}).json()[
        "agents"
    ]
    assert (last["top_p"], last["temperature"], last["stop"]) == (0.5, None, [])
    sources = {one["agent"]: one["source"] for one in call("GET", path).json()["agents"]}
    assert (sources["8"], sources["9"], sources["0"]) == ("chapter", "chapter", "default")
    assert "m8" not in call("GET", "/api/models").content.decode()


@pytest.mark.parametrize(
    "wrong",
    [
        {"agent": "9", "model": "m", "temperature": 3},
        {"agent": "9", "model": "m", "temperature": "1"},
        {"agent": "9", "model": "m", "max_output_tokens": 1},
    ],
)
def test_what_a_chapter_cannot_set_is_refused(wrong: dict[str, object]) -> None:
    chapter = make_active_chapter()
    path = f"/api/session/{chapter.pk}/models"
    before = call("GET", path).json()
    good = {"agent": "8", "temperature": 0.5, "model": "m"}
    assert call("PUT", path, {"agents": [good, wrong]}).status_code == 422
    assert call("GET", path).json() == before


class TestBudget:
    def test_the_caps_are_stored_and_taken_back(self, settings: Settings) -> None:
        settings.CHAPTER_BUDGET, settings.CHAPTER_TOKENS = Decimal(5), 0
        none = {"stored_dollars": None, "stored_tokens": None, "tokens": None}
        of_environment = {**none, "dollars": "5", "highest_dollars": "5", "highest_tokens": None}
        assert call("GET", "/api/models").json()["budget"] == of_environment
        sent = {"budget": {"dollars": 2.5, "tokens": 1000}}
        budget = call("PUT", "/api/models", sent).json()["budget"]
        assert (budget["dollars"], budget["stored_dollars"]) == ("2.50", "2.50")
        assert (budget["tokens"], budget["highest_dollars"]) == (1000, "5")
        # What is not sent stays.
        assert call("PUT", "/api/models", {"agents": []}).json()["budget"] == budget
        back = call("PUT", "/api/models", {"budget": {}}).json()["budget"]
        assert back == of_environment

    def test_a_wrong_choice_stores_no_cap(self) -> None:
        wrong = {"agents": [{"agent": "9", "server": "nowhere", "model": "m"}]}
        assert call("PUT", "/api/models", wrong | {"budget": {"dollars": 1}}).status_code == 422
        assert stored_caps() == NO_CAPS
        assert call("GET", "/api/models").json()["budget"]["stored_dollars"] is None
