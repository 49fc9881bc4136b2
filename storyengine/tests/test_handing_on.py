"""The lighthouse hands on memory although it has no lock, its setup with what is left of the oil,
and a part of its world."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agents.flows.beginning import next_chapter
from agents.modes.registry import begin_chapter
from agents.modes.world_rules import HandedOn
from memory.before.handed_on import what_holds
from memory.fold.folding import fold_chapter
from memory.models import MemoryBlock
from memory.tests.factories import add_delta
from sessions.models import Attempt, Session
from sessions.play.attempts import open_prompt
from sessions.play.committing import commit_attempt
from sessions.play.events import reply
from sessions.play.played_world import NewChange, store_changes
from storyengine.api.tests.calling import address, assert_problem, call
from storyengine.tests.lighthouse.mode import MODE
from storyengine.tests.lighthouse.state import LIT, OIL, TIDE_CAME, WIND, WORLD, Light
from storyengine.tests.playing_the_lighthouse import lighthouse as lighthouse

pytestmark = [pytest.mark.django_db, pytest.mark.servers, pytest.mark.usefixtures("lighthouse")]


def turn(chapter: Session, *changes: tuple[str, dict[str, Any]]) -> Attempt:
    """Play a turn with these changes."""
    key = f"turn {chapter.prompt_index + 1}"
    attempt = open_prompt(chapter.pk, actor=1, words="Go on.", submission_key=key).attempt
    assert store_changes(attempt, [NewChange(kind, payload) for kind, payload in changes])
    commit_attempt(attempt, reply(attempt, "I nod."))
    return attempt


@pytest.fixture
def first() -> Session:
    chapter = begin_chapter(mode="lighthouse")
    call("PUT", address(chapter, "tab1"), {"selected_agent_slots": [1, 2]})
    turn(
        chapter,
        (LIT, {"lamp": "north"}),
        (OIL, {"litres": 4}),
        (WIND, {"force": 7}),
        (TIDE_CAME, {"level": 2}),
    )
    chapter = Session.objects.get(pk=chapter.pk)
    add_delta(chapter, 1, 1, {"canon_locks": ["The stair is broken."]}, audience=[1, 2])
    add_delta(chapter, 1, 1, {"canon_locks": ["The priest drinks."]}, audience=[1])
    return chapter


def following(first: Session) -> Session:
    answer = call("POST", f"/api/story/{first.story_id}/chapter")
    assert answer.status_code == 201, answer.content
    return Session.objects.get(pk=answer.json()["session_id"])


def canon(chapter: Session, reader: int) -> list[object]:
    folded = fold_chapter(Session.objects.get(pk=chapter.pk), readers=[reader])
    return what_holds(folded, chapter.characters)["canon_locks"]


def test_the_next_chapter_begins_with_what_is_left(first: Session) -> None:
    chapter = following(first)
    assert chapter.tab1.mode_setup["oil"] == 9
    light = WORLD.now(chapter)
    assert (light.oil, light.lit, light.tides, light.wind) == (9, ("north",), (2,), None)


def test_who_joins_before_the_first_prompt_is_told_what_everybody_knew(first: Session) -> None:
    chapter = following(first)
    call("PUT", address(chapter, "tab1"), {"selected_agent_slots": [1, 2, 3]})
    assert canon(chapter, 3) == ["The stair is broken."]
    assert canon(chapter, 1) == ["The stair is broken.", "The priest drinks."]


def test_the_setup_that_the_user_changed_stays_and_the_world_is_renewed(first: Session) -> None:
    chapter = following(first)
    call("PUT", address(chapter, "setup"), {"oil": 1})
    turn(first, (LIT, {"lamp": "south"}))
    document = call("POST", address(chapter, "before/renew")).json()
    assert document["before"]["changes"] == []
    light = WORLD.now(Session.objects.get(pk=chapter.pk))
    assert (light.oil, light.lit) == (1, ("north", "south"))


def test_a_chapter_that_is_reset_remembers_as_nobody_but_is_told(first: Session) -> None:
    chapter = following(first)
    answer = call("POST", address(chapter, "reset"))
    chapter = Session.objects.get(pk=answer.json()["session_id"])
    assert canon(chapter, 1) == ["The stair is broken."]
    assert WORLD.now(chapter).lit == ("north",)


def hand_on_instead(
    monkeypatch: pytest.MonkeyPatch, function: Callable[[Light, Session, Session], HandedOn]
) -> None:
    changed = replace(MODE, world=replace(WORLD, hands_on=function))
    monkeypatch.setattr(next_chapter, "find_mode", lambda name: changed)


@pytest.mark.parametrize(
    "handed_on",
    [
        HandedOn({"oil": 10_000}),
        HandedOn({"nobody": "knows it"}),
        HandedOn(world={"x": "y" * 10**6}),
    ],
)
def test_what_cannot_be_stored_is_refused_and_nothing_begins(
    first: Session, monkeypatch: pytest.MonkeyPatch, handed_on: HandedOn
) -> None:
    hand_on_instead(monkeypatch, lambda light, before, chapter: handed_on)
    assert call("POST", f"/api/story/{first.story_id}/chapter").status_code == 422
    assert Session.everything.count() == 1


def test_an_error_when_it_is_renewed_leaves_the_world_and_is_logged(
    first: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    chapter = following(first)
    hand_on_instead(monkeypatch, lambda light, before, chapter: HandedOn(world={"x": 1 / 0}))
    turn(first)
    assert call("POST", address(chapter, "before/renew")).status_code == 200
    assert "hands_on" in caplog.text
    assert WORLD.now(Session.objects.get(pk=chapter.pk)).lit == ("north",)


def test_after_the_first_prompt_the_memory_stays(first: Session) -> None:
    chapter = following(first)
    turn(chapter)
    blocks = MemoryBlock.objects.filter(session=chapter, type="story_so_far")
    kept = list(blocks.values_list("pk", flat=True))
    assert_problem(call("POST", address(chapter, "before/renew")), 409, "wrong-state")
    assert list(blocks.values_list("pk", flat=True)) == kept
