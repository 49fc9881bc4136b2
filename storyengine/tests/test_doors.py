"""Tests that what one door takes, every other door takes: whatever a person or a model has written,
the export of the chapter can be imported, and is the same again."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import Settings

from agents.llm.providers.scripted import ScriptedProvider
from explorer.tests.playing import calls, move, play
from sessions.language.text import why_no_name, why_not_text
from sessions.models import Session
from sessions.tests.factories import make_chapter
from sessions.tests.weekly import few
from storyengine.api.tests.calling import address, call
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.importing import import_chapter

pytestmark = pytest.mark.django_db

SIGNS = (
    "aé字क 😀\u200d\n\r\x0b\x85\u2028\x1b\x7f\x9b\ud83d"
    "\ufeff\u200b\u3164\u2800\u00ad\u202e\u200f\ue000"
)
texts = st.text(st.sampled_from(SIGNS) | st.characters(), min_size=1, max_size=12)

# Each entry changes a chapter by a text: the method, the path and the body.
Change = Callable[[str], tuple[str, str, dict[str, Any]]]
ON_TAB1: list[Change] = [
    lambda text: ("PATCH", "", {"title": text}),
    lambda text: ("PUT", "tab1", {"world_text": text, "chapter_text": text}),
    lambda text: ("PUT", "tab1", {"agent_names": {"1": text}}),
    lambda text: ("PUT", "tab1", {"agent_pronouns": {"1": text}, "agent_public_text": {"1": text}}),
    lambda text: ("PUT", "tab1", {"agent_identity_text_by_slot": {"1": text}}),
    lambda text: ("PUT", "narrative-agent", {"narrative_agent_definition_text": text}),
]


def _person(text: str, field: str) -> tuple[str, str, dict[str, Any]]:
    return "PUT", "scenario", {"characters": [{"name": "Osk"}, {"name": "Ib", field: text}]}


IN_EXPLORATIONS: list[Change] = [
    lambda text: ("PUT", "scenario", {"title": text, "description": text}),
    lambda text: ("PUT", "scenario", {"locations": [{"name": text, "description": text}]}),
    lambda text: ("PUT", "scenario", {"playerStartingLocation": text}),
    lambda text: ("PUT", "scenario", {"initialNarrativeTime": text, "opening": text}),
    lambda text: ("PUT", "scenario", {"characters": [{"name": text, "goals": text}]}),
    lambda text: _person(text, "description"),
    lambda text: _person(text, "location"),
    lambda text: ("PUT", "scenario", {"characters": [{"name": "Ib", "aliases": [text]}]}),
    lambda text: ("PUT", "scenario", {"characters": [{"name": "Ib", "knowledge": [text]}]}),
    lambda text: ("PATCH", "setup", {"note": {"text": text}, "style": text}),
    lambda text: ("PATCH", "setup", {"talk": [{"name": text, "text": text}]}),
    lambda text: ("PATCH", "setup", {"output_rules": [{"pattern": "a", "replacement": text}]}),
    lambda text: ("PATCH", "setup", {"persona": {"pronouns": text, "seen_as": text}}),
    lambda text: (
        "PATCH",
        "setup",
        {"lorebook": {"entries": [{"name": text, "content": text, "keywords": text}]}},
    ),
]


def content_of(chapter: Session) -> dict[str, Any]:
    file: dict[str, Any] = json.loads(export_chapter(chapter.pk).to_json())
    content: dict[str, Any] = file["chapter"]
    return content


def check_export(chapter: Session) -> None:
    copy = import_chapter(export_chapter(chapter.pk).to_json())
    assert content_of(copy) == content_of(chapter)


def check_door(chapter: Session, change: Change, text: str) -> None:
    """Send the text, and check that it was refused with a reason, or can be exported and
    imported."""
    before = content_of(chapter)
    method, path, body = change(text)
    answer = call(method, address(chapter, path).rstrip("/"), body)
    assert answer.status_code in (200, 201, 422), answer.content
    if why_not_text(text):
        assert answer.status_code == 422
        assert why_not_text(text) in answer.json()["detail"]
    if answer.status_code == 422:
        assert content_of(chapter) == before
    check_export(chapter)


@settings(max_examples=few(4, 60), deadline=None, suppress_health_check=list(HealthCheck))
@given(text=texts)
@pytest.mark.parametrize("change", ON_TAB1)
def test_a_text_of_tab_1_is_refused_or_comes_back(change: Change, text: str) -> None:
    check_door(make_chapter(), change, text)


@settings(max_examples=few(3, 60), deadline=None, suppress_health_check=list(HealthCheck))
@given(text=texts)
@pytest.mark.parametrize("change", IN_EXPLORATIONS)
def test_a_text_of_an_exploration_is_refused_or_comes_back(change: Change, text: str) -> None:
    made = call("POST", "/api/session", {"mode": "explorer"}).json()
    chapter = Session.objects.get(pk=made["session_id"])
    check_door(chapter, change, text)
    scenario = call("GET", address(chapter, "scenario"))
    assert call("PUT", address(chapter, "scenario"), scenario.json()).json() == scenario.json()


@pytest.mark.parametrize("name", ["\u200b", "\u3164\u2800", "Ib\u202e", "\u200fIb", "I\u2067b"])
class TestNames:
    def test_nobody_and_nothing_has_such_a_name(self, name: str) -> None:
        assert why_no_name(name)
        made = call("POST", "/api/session", {"mode": "explorer"}).json()
        chapter = Session.objects.get(pk=made["session_id"])
        for body in (
            {"locations": [{"name": name}]},
            {"locations": [{"name": "Inn", "ways": [name]}]},
            {"playerStartingLocation": name},
            {"characters": [{"name": name}]},
            {"characters": [{"name": "Osk", "aliases": [name]}]},
            {"characters": [{"name": "Osk", "location": name}]},
            {"characters": [{"name": "Osk", "relationships": [{"name": name}]}]},
        ):
            answer = call("PUT", address(chapter, "scenario"), body)
            assert answer.status_code == 422
            assert why_no_name(name) in answer.json()["detail"]
        persona = {"persona": {"name": name}}
        assert call("PATCH", address(chapter, "setup"), persona).status_code == 422
        names = {"agent_names": {"1": name}}
        assert call("PUT", address(make_chapter(), "tab1"), names).status_code == 422


def begun(scenario: dict[str, Any]) -> Session:
    made = call("POST", "/api/session", {"mode": "explorer"}).json()
    chapter = Session.objects.get(pk=made["session_id"])
    assert call("PUT", address(chapter, "scenario"), scenario).status_code == 200
    call("POST", address(chapter, "lock"))
    return Session.objects.get(pk=chapter.pk)


@pytest.mark.parametrize("sign", [*"\x00\x1b\x7f\x9b\x0c\u2028\ufeff\u200b"])
def test_what_a_model_writes_comes_back(
    settings: Settings, provider: ScriptedProvider, sign: str
) -> None:
    settings.LLM = "scripted"
    chapter = begun({"locations": [{"name": "Inn"}]})
    met = {"characterName": "Osk", "introduction": f"A{sign}smith.", "goals": f"{sign}Gold"}
    provider.enqueue(
        calls(f"You{sign}wait.", ("discoverCharacter", met), move("The Mill", time=f"Ni{sign}ght")),
        f"{sign}The mill{sign} turns.{sign}",
    )
    play(chapter)
    world = call("GET", address(chapter, "world")).json()
    assert world["player_location"] == "Mill"
    assert "Osk" in [one["name"] for one in world["characters"]]
    check_export(chapter)
