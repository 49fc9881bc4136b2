"""Tests that the rules for worlds of places and people notice each violation."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from chaos.invariants import find_violations
from chaos.tests.test_invariants import NOW, Rows, call_row, chapter_rows, job_row, journal

SECRET = "[secret of Marta] Tomas lives."


def person(location: str, **more: Any) -> Rows:
    return {
        "location": location,
        "is_player": False,
        "is_discovered": True,
        "knowledge": [],
        **more,
    }


def world(**more: Any) -> Rows:
    people = {
        "You": person("The Inn", is_player=True),
        "Osk": person("The Inn"),
        "Marta": person("The Mill", is_discovered=False, knowledge=[{"content": SECRET}]),
    }
    return {
        "tick": 0,
        "narrative_time": "Dusk",
        "places": {"The Inn": {}, "The Mill": {}},
        "people": people,
        **more,
    }


def change(number: int, position: int, kind: str, payload: Rows, run: str = "") -> Rows:
    return {
        "attempt_id": f"attempt-{number}",
        "run_id": run or f"run-{number}",
        "position": position,
        "step": 1,
        "kind": kind,
        "payload": payload,
        "result": None,
    }


def explored() -> Rows:
    """Return a chapter in which the player went to the mill with Osk and met Marta, after a run
    that broke off had gone elsewhere."""
    chapter = chapter_rows()
    moved = {"who": ["You", "Osk"], "to": "The Mill", "ticks": 5, "narrative_time": "Night"}
    lesson = {"who": "Osk", "content": "The wheel broke.", "source": "told", "from": ""}
    chapter["changes"] = [
        change(2, 0, "world.moved", moved | {"to": "The Inn"}, run="run-before"),
        change(2, 1, "world.met", {"name": "Marta"}),
        change(2, 0, "world.moved", moved),
        change(3, 0, "world.remembered", {"learned": [lesson]}),
    ]
    chapter["first_world"] = world()
    people = deepcopy(world()["people"])
    people["You"]["location"] = people["Osk"]["location"] = "The Mill"
    people["Marta"]["is_discovered"] = True
    people["Osk"]["knowledge"] = [{"content": "The wheel broke."}]
    places = {name: {"unseen_since": 5} for name in world()["places"]}
    chapter["world"] = world(people=people, places=places, tick=5, narrative_time="Night")
    now = f"## WORLD_NOW\nCHARACTERS PRESENT (SYSTEM STATE):\n- Marta: A ringer.\n  Knows: {SECRET}"
    chapter["calls"].append({**call_row("c", [0] * 5), "text": now})
    done = job_row("explorer.simulation", "done")
    result = {"places": [{"place": "The Inn", "tick": 5}], "skipped": []}
    chapter["jobs"].append({**done, "result": result})
    return chapter


def broken_rules(chapter: Rows) -> set[str]:
    snapshot = {"read_at": NOW, "chapters": [chapter]}
    return {violation.rule for violation in find_violations(snapshot, journal())}


def test_an_exploration_without_a_mistake_breaks_no_rule() -> None:
    assert broken_rules(explored()) == set()


def double(chapter: Rows) -> None:
    """Add somebody of the same name to both worlds."""
    for name in ("world", "first_world"):
        chapter[name]["people"]["the osk"] = person("The Inn")


def unseen(chapter: Rows) -> None:
    """Add two people at a place where nobody goes."""
    for name in ("world", "first_world"):
        chapter[name]["people"] |= {"Ib": person("The Loft"), "Runa": person("The Loft")}
        chapter[name]["places"]["The Loft"] = {"unseen_since": 0}


def let_it_last(chapter: Rows, ticks: int) -> None:
    """Let the move last for so many ticks."""
    chapter["changes"][2]["payload"]["ticks"] = chapter["world"]["tick"] = ticks
    for name in ("The Inn", "The Mill"):
        chapter["world"]["places"][name]["unseen_since"] = ticks


def test_a_simulation_that_was_due_is_missed_only_if_none_was_asked_for() -> None:
    chapter = explored()
    unseen(chapter)
    let_it_last(chapter, 11)
    assert broken_rules(chapter) == {"simulations were asked for"}
    chapter["jobs"][-1]["attempt_id"] = "attempt-2"
    assert broken_rules(chapter) == set()
    chapter["jobs"].pop()
    let_it_last(chapter, 10)
    assert broken_rules(chapter) == set()


@pytest.mark.parametrize(
    ("rule", "break_it"),
    [
        ("the world is a fold", lambda c: c["world"].update(tick=10)),
        ("the world is a fold", lambda c: c["changes"].pop()),
        ("the world is a fold", lambda c: c["world"]["places"].update({"Nowhere": {}})),
        ("the world is a fold", lambda c: c["world"]["people"]["Osk"].update(location="The Inn")),
        ("nobody is double", double),
        ("secrets are kept", lambda c: c["blocks"][-1].update(text=SECRET)),
        ("secrets are kept", lambda c: c["calls"][-1].update(text=f"## WORLD_NOW\n{SECRET}")),
        (
            "secrets are kept",
            lambda c: c["calls"][-1].update(text=SECRET + c["calls"][-1]["text"]),
        ),
        ("simulations are told", lambda c: c["jobs"][-1].update(result={"places": []})),
        ("simulations are told", lambda c: c["jobs"][-1].update(status="failed")),
    ],
)
def test_each_violation_is_noticed(rule: str, break_it: Callable[[Rows], object]) -> None:
    chapter = explored()
    break_it(chapter)
    assert rule in broken_rules(chapter)
