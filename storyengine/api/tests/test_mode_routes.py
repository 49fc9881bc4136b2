"""Tests that another mode needs only its declaration to work in the API, on pages and in files."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from agents.llm.providers.scripted import ScriptedProvider
from agents.modes.declaration import Stage
from agents.tests.second_mode import VOYAGER, install
from sessions.chapter.access import get_chapter
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
    def test_a_stage_that_it_lacks_is_refused(self, client: Client) -> None:
        key = explore(client)
        for verb, stage in (("lock", "lock"), ("build-narrative", "narration")):
            answer = post(client, f"/{key}/{verb}")
            assert answer.status_code == 409
            assert f'played as "Voyager" has no {stage}' in answer.json()["detail"]

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

    def test_a_file_from_before_it_was_without_a_lock_comes_in_as_in_play(
        self, client: Client, provider: ScriptedProvider
    ) -> None:
        file = json.loads(_written(explore(client)))
        file["chapter"]["state"] = "DRAFT_TAB1"
        copy = import_chapter(json.dumps(file).encode())
        assert (copy.state, copy.tab1_locked) == ("ACTIVE", False)
        provider.enqueue("Masts, and gulls.")
        answer = post(client, f"/{copy.pk}/prompt", agent_slot=None, user_text="I look.")
        assert answer.status_code == 201

    def test_a_file_of_it_is_refused_where_it_is_not_installed(
        self, client: Client, monkeypatch: pytest.MonkeyPatch, settings: Settings
    ) -> None:
        content = _written(explore(client))
        install(monkeypatch, settings)
        with pytest.raises(BadChapterFile, match='mode is "voyager", a way to play that is not'):
            import_chapter(content)

    def test_without_memory_none_is_written_and_the_chapter_ends(
        self,
        client: Client,
        provider: ScriptedProvider,
        monkeypatch: pytest.MonkeyPatch,
        settings: Settings,
    ) -> None:
        stages = frozenset({Stage.PLAY})
        install(monkeypatch, settings, voyager=replace(VOYAGER, stages=stages))
        key = explore(client)
        for number in range(7):
            provider.enqueue("Masts, and gulls.")
            words = {"agent_slot": None, "user_text": f"I look {number}."}
            assert post(client, f"/{key}/prompt", **words).status_code == 201
        chapter = get_chapter(UUID(key))
        assert not chapter.jobs.exists()
        assert post(client, f"/{key}/end").json()["state"] == "ENDED"
        assert import_chapter(_written(key)).state == "ENDED"
        page = client.get(reverse("pages:play", args=[key])).content.decode()
        assert reverse("pages:world", args=[key]) + '"' not in page
        assert reverse("pages:draft", args=[key]) + '"' not in page

    def test_tab_3_shows_memory_without_a_narrator(self, client: Client) -> None:
        key = explore(client)
        page = client.get(reverse("pages:draft", args=[key])).content.decode()
        assert 'class="cell memory-cell"' in page
        assert 'id="narrator"' not in page


def _written(key: str | UUID) -> bytes:
    return export_chapter(UUID(str(key))).to_json()
