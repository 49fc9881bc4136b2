"""Scenario files, and the finished scenarios."""

import json
from typing import Any

import pytest
from django.test import Client

from explorer.ready import ready_scenarios
from explorer.scenario_file import write_scenario
from explorer.setup import exploration_of
from explorer.tests.playing import TAVERN, begin
from sessions.models import Session
from storyengine.api.tests.calling import address, call

pytestmark = pytest.mark.django_db

SCENARIO: dict[str, Any] = {
    "title": "The Last Ferry",
    "initialNarrativeTime": "Dusk",
    "locations": [{"name": "The Inn", "description": "Wet coats."}],
    "characters": [
        {
            "name": "Osk",
            "goals": "To be paid.",
            "knowledge": ["Two lanterns.", {"content": "He lies.", "source": "told"}],
            "relationships": [{"name": "Marta", "description": "Owes her."}],
        },
        {"name": "Marta", "location": "the landing", "isDiscovered": False, "encounterChance": 0.5},
    ],
}


@pytest.fixture
def chapter() -> Session:
    made = call("POST", "/api/session", {"mode": "explorer"})
    return Session.objects.get(pk=made.json()["session_id"])


def put(chapter: Session, scenario: Any) -> Any:
    return call("PUT", address(chapter, "scenario"), scenario)


def test_only_names_are_required_and_what_is_left_out_means_known_and_at_the_start(
    chapter: Session,
) -> None:
    assert put(chapter, SCENARIO).status_code == 200
    call("POST", address(chapter, "lock"))
    world = call("GET", address(chapter, "world")).json()
    where = {one["name"]: (one["location"], one["is_discovered"]) for one in world["characters"]}
    assert where == {
        "The traveller": ("The Inn", True),
        "Osk": ("The Inn", True),
        "Marta": ("the landing", False),
    }
    # A place that is named but not listed is added.
    assert [one["name"] for one in world["locations"]] == ["The Inn", "the landing"]
    osk = next(one for one in world["characters"] if one["name"] == "Osk")
    known = [(one["content"], one["source"]) for one in osk["knowledge"]]
    assert known == [("Two lanterns.", "witnessed"), ("He lies.", "told")]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"characters": [{"name": ""}]}, ["characters", 0, "name"]),
        ({"characters": [{"name": "A"}, {"name": "a"}]}, ["characters", 1, "name"]),
        (
            {"characters": [{"name": n, "isPlayer": True} for n in "AB"]},
            ["characters", 1, "isPlayer"],
        ),
        (
            {"characters": [{"name": "A", "encounterChance": 2}]},
            ["characters", 0, "encounterChance"],
        ),
        ({"locations": [{"name": "Inn"}, {"name": "The inn"}]}, ["locations", 1, "name"]),
        ({"locations": [{"name": str(n)} for n in range(101)]}, ["locations"]),
        ({"secret": 1}, ["secret"]),
        ({"description": "x" * 5_001}, ["description"]),
        ({"playerStartingLocation": "???"}, ["playerStartingLocation"]),
        ({"locations": [{"name": "Inn", "exits": []}]}, ["locations", 0, "exits"]),
        (
            {
                "locations": [{"name": str(n)} for n in range(100)],
                "characters": [{"name": "A", "location": "Moon"}],
            },
            ["locations"],
        ),
        ({"characters": [{"name": "GM"}]}, ["characters", 0, "name"]),
        ({"characters": [{"name": "A"}, {"name": "Traveller"}]}, ["characters", 1, "name"]),
        ({"characters": [{"name": "A", "location": "In\u202en"}]}, ["characters", 0, "location"]),
        ({"characters": [{"name": "\u3164"}]}, ["characters", 0, "name"]),
        ({"description": "A town\x1b."}, ["description"]),
        ({"characters": [{"name": "A", "goals": "\ud83d"}]}, ["characters", 0, "goals"]),
        (
            {"characters": [{"name": "A"}, {"name": "B", "aliases": ["b", "\u0410"]}]},
            ["characters", 1, "aliases", 1],
        ),
        (
            {"characters": [{"name": n, "aliases": ["The Ferryman"]} for n in "AB"]},
            ["characters", 1, "aliases", 0],
        ),
        (
            {"characters": [{"name": "A", "knowledge": [{"content": "x", "source": "heard"}]}]},
            ["characters", 0, "knowledge", 0, "source"],
        ),
    ],
)
def test_a_bad_file_names_the_field_and_changes_nothing(
    chapter: Session, change: dict[str, Any], path: list[str | int]
) -> None:
    put(chapter, SCENARIO)
    before = call("GET", address(chapter, "scenario")).json()
    answer = put(chapter, change)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["loc"] == ["body", *path]
    assert call("GET", address(chapter, "scenario")).json() == before


def test_a_file_of_more_than_1_mb_is_refused(chapter: Session) -> None:
    put(chapter, SCENARIO)
    before = call("GET", address(chapter, "scenario")).json()
    assert put(chapter, {"description": "x" * 1_000_001}).status_code == 413
    assert call("GET", address(chapter, "scenario")).json() == before


@pytest.mark.parametrize("ready", ready_scenarios(), ids=lambda one: one.name)
def test_a_finished_scenario_is_played_at_once_and_fits_a_file(client: Client, ready: Any) -> None:
    answer = client.post(f"/modes/explorer/begin/{ready.name}")
    assert answer.status_code == 302
    chapter = Session.objects.get()
    assert (chapter.state, chapter.title) == ("ACTIVE", ready.title)
    page = client.get(f"/chapters/{chapter.pk}/play").content.decode()
    assert ready.setup.places[0].description[:20] in page
    hidden = [one.name for one in ready.setup.people if not one.is_discovered]
    assert hidden
    assert not any(name in page for name in hidden)
    secrets = [fact.content for one in ready.setup.people for fact in one.knowledge]
    assert not any(secret in page for secret in secrets)
    assert json.dumps(write_scenario(exploration_of(chapter)))


def test_finished_worlds_are_listed_and_begun_by_the_api() -> None:
    listed = {one["name"]: one for one in call("GET", "/api/starters").json()}
    ferry = listed["last-ferry"]
    assert (ferry["mode"], ferry["title"], ferry["prompt_count"]) == (
        "explorer",
        "The Last Ferry",
        1,
    )
    told = json.dumps(ferry)
    assert "Osk Brandt" in told
    assert "Marta Quill" not in told
    begun = call("POST", "/api/session", {"starter": "last-ferry", "title": "Mine"})
    assert begun.status_code == 201
    chapter = Session.objects.get(pk=begun.json()["session_id"])
    assert (chapter.mode, chapter.title, chapter.state) == ("explorer", "Mine", "ACTIVE")
    opened = call("POST", "/api/session", {"starter": "last-ferry", "change_first": True}).json()
    assert Session.objects.get(pk=opened["session_id"]).state == "DRAFT_TAB1"
    other = {"starter": "last-ferry", "mode": "other"}
    assert call("POST", "/api/session", other).status_code == 422


def test_after_the_lock_it_is_refused() -> None:
    chapter = begin(TAVERN)
    assert put(chapter, SCENARIO).status_code == 409
    same = call("GET", address(chapter, "scenario")).json()
    assert put(chapter, same).status_code == 409
