"""A block of memory of a small model says nothing twice."""

from typing import Any

import pytest

from agents.prompting.forms.restatements import without_restatements
from agents.tests.replies import turn_delta, world_lock


def change(**fields: str) -> dict[str, str]:
    return {"key": "the scale", "before": "", "after": "", "notes": "", **fields}


@pytest.mark.parametrize(
    "same",
    [
        change(before="The scale is empty.", after="The scale is empty."),
        change(before="the scale is empty", after="The scale is empty!"),
        change(key="The scale is empty", after="The scale is empty."),
    ],
)
def test_a_state_that_stays_the_same_is_left_out(same: dict[str, str]) -> None:
    changed = change(before="empty", after="full")
    delta = without_restatements(turn_delta(state_changes=[same, changed]))
    assert delta["state_changes"] == [changed]


def test_a_canon_lock_stands_in_no_other_list() -> None:
    lock = world_lock()
    lock["world"]["key_lore"] = ["The bell is cracked.", "The bell tells the time."]
    lock["canon_locks"] = ["The bell is cracked"]
    cleaned = without_restatements(lock)
    assert cleaned["world"]["key_lore"] == ["The bell tells the time."]
    assert cleaned["canon_locks"] == ["The bell is cracked"]


@pytest.mark.parametrize(
    "block",
    [
        turn_delta(),
        turn_delta(state_changes=[change(after="full")]),
        turn_delta(items_clues_discovered=[{"thing": "Ona", "who_found": "Ona"}]),
        world_lock(),
    ],
)
def test_anything_else_stays_as_it_came(block: dict[str, Any]) -> None:
    assert without_restatements(block) == block
