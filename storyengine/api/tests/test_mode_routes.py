"""Tests that another mode needs only its declaration to work in the API, on pages and in files."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from pytest_django import Settings

from agents.llm.providers.scripted import ScriptedProvider
from agents.tests.second_mode import VOYAGER, install
from sessions.tests.factories import make_active_chapter
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.file_errors import BadChapterFile
from storyengine.exchange.importing import import_chapter

pytestmark = pytest.mark.django_db

JSON = "application/json"


@pytest.fixture
def _voyager(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[None]:
    install(monkeypatch, settings, voyager=VOYAGER)
    yield
    monkeypatch.undo()
    install(monkeypatch, settings)


def post(client: Client, address: str, **body: Any) -> Any:
    return client.post(f"/api/session{address}", json.dumps(body), content_type=JSON)


def explore(client: Client) -> str:
    made = post(client, "", mode="voyager").json()
    assert (made["mode"], made["state"]) == ("voyager", "ACTIVE")
    return str(made["session_id"])


def test_a_chapter_that_names_no_mode_is_the_game_master_s(client: Client) -> None:
    made = post(client, "").json()
    assert (made["mode"], made["state"]) == ("gamemaster", "DRAFT_TAB1")
    assert client.get("/api/session").json()["items"][0]["mode"] == "gamemaster"


def test_a_mode_that_is_not_there_is_refused_with_those_that_are(client: Client) -> None:
    answer = post(client, "", mode="voyager")
    assert answer.status_code == 422
    assert (
        "'voyager' is no way to play that is installed here; there is gamemaster, explorer"
        in (answer.json()["detail"])
    )
    assert client.get("/api/session").json()["count"] == 0


def test_a_prompt_of_the_game_master_names_somebody(client: Client) -> None:
    chapter = make_active_chapter()
    answer = post(client, f"/{chapter.pk}/prompt", agent_slot=None, user_text="Go.")
    assert answer.status_code == 422
    assert "names no agent that answers it" in answer.json()["detail"]
    assert not chapter.attempts.exists()


@pytest.mark.usefixtures("_voyager")
class TestASecondMode:
    def test_it_is_played_and_goes_into_a_file_and_back(
        self, client: Client, provider: ScriptedProvider
    ) -> None:
        key = explore(client)
        provider.enqueue("Masts, and gulls.")
        answer = post(client, f"/{key}/prompt", agent_slot=None, user_text="I look.")
        assert answer.status_code == 201, answer.json()
        turn = client.get(f"/api/session/{key}/turns/1").json()
        assert turn["attempts"][0]["agent_slot"] is None
        copy = import_chapter(_written(key))
        attempt = copy.turns.get().chosen
        assert (copy.mode, copy.state, copy.tab1_locked) == ("voyager", "ACTIVE", False)
        assert (attempt.actor, attempt.agent) == (None, "voyager.narrator")
        [one, another] = (json.loads(_written(each))["chapter"] for each in (key, copy.pk))
        assert one == another

    def test_a_file_of_it_is_refused_where_it_is_not_installed(
        self, client: Client, monkeypatch: pytest.MonkeyPatch, settings: Settings
    ) -> None:
        content = _written(explore(client))
        install(monkeypatch, settings)
        with pytest.raises(BadChapterFile, match='mode is "voyager", a way to play that is not'):
            import_chapter(content)


def _written(key: str | UUID) -> bytes:
    return export_chapter(UUID(str(key))).to_json()
