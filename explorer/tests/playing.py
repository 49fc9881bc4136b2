"""Functions by which tests set up and play an exploration through the API."""

import json
from typing import Any

import pytest
from pytest_django import Settings

from agents.llm.providers.base import ToolCall
from agents.llm.providers.scripted import Script, ScriptedProvider
from explorer.played_world import WORLD
from sessions.models import Session
from storyengine.api.tests.calling import address, call
from world.state import World

TAVERN: dict[str, Any] = {
    "title": "The Last Ferry",
    "description": "A river inn on the night when the ferry does not come back.",
    "narrative_time": "Dusk",
    "places": [
        {"name": "The Ferry Inn", "description": "A low room full of wet coats."},
        {"name": "The Landing", "description": "Planks, a bell, black water."},
        {"name": "The Mill"},
    ],
    "people": [
        {
            "name": "Osk",
            "description": "The innkeeper, who counts everything twice.",
            "goals": "To be paid before the night is over.",
            "knowledge": [{"content": "The ferry left with two lanterns."}],
        },
        {
            "name": "Marta Quill",
            "description": "The bell ringer.",
            "location": "The Landing",
            "is_discovered": False,
            "aliases": ["the ringer"],
            "knowledge": [{"content": "MARKER-TOMAS-LIVES", "source": "told"}],
        },
        {"name": "Ib", "description": "The miller's boy.", "location": "The Mill"},
        {"name": "Runa", "description": "The miller.", "location": "The Mill"},
    ],
    "starting_place": "The Ferry Inn",
    "persona": {"name": "Edda Linn", "description": "You look for your brother."},
}


@pytest.fixture
def scripted(settings: Settings, provider: ScriptedProvider) -> ScriptedProvider:
    settings.LLM = "scripted"
    return provider


def begin(setup: dict[str, Any] | None = None) -> Session:
    """Return an exploration in play."""
    made = call("POST", "/api/session", {"mode": "explorer"})
    assert made.status_code == 201, made.content
    chapter = Session.objects.get(pk=made.json()["session_id"])
    saved = call("PUT", address(chapter, "setup"), TAVERN if setup is None else setup)
    assert saved.status_code == 200, saved.content
    locked = call("POST", address(chapter, "lock"))
    assert locked.status_code in (200, 202), locked.content
    return Session.objects.get(pk=chapter.pk)


def calls(text: str, *made: tuple[str, dict[str, Any]]) -> Script:
    """Return a step of the narrator with this text and these tool calls."""
    return Script(
        text,
        tool_calls=tuple(
            ToolCall(f"call-{at}", name, json.dumps(arguments))
            for at, (name, arguments) in enumerate(made)
        ),
    )


def move(to: str, *along: str, time: str = "Night") -> tuple[str, dict[str, Any]]:
    return "moveToLocation", {
        "destination": to,
        "narrativeTime": time,
        "accompaniedBy": list(along),
    }


def wait(time: str, ticks: int) -> tuple[str, dict[str, Any]]:
    return "advanceTime", {"narrativeTime": time, "ticks": ticks}


def discover(name: str, introduction: str = "Somebody.") -> tuple[str, dict[str, Any]]:
    arguments = {"characterName": name, "introduction": introduction, "goals": ""}
    return "discoverCharacter", arguments


def play(chapter: Session, words: str = "I look around.") -> Any:
    answer = call("POST", address(chapter, "prompt"), {"user_text": words})
    assert answer.status_code == 201, answer.content
    return answer.json()


def world_of(chapter: Session) -> World:
    return WORLD.now(Session.objects.get(pk=chapter.pk))


def events_of(chapter: Session, number: int) -> list[tuple[str, str]]:
    """Return role and text of the events of the chosen attempt."""
    turn = call("GET", address(chapter, f"turns/{number}")).json()
    [chosen] = [one for one in turn["attempts"] if one["is_chosen"]]
    return [(one["role"], one["text"]) for one in chosen["events"]]


def lived_through(told: str) -> Script:
    """Return the answer to the question what happened at a place meanwhile."""
    return Script("", tool_calls=(ToolCall("m", "tellMeanwhile", json.dumps({"told": told})),))
