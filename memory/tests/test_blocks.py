from typing import Any

import pytest

from memory.blocks import with_known_slots


@pytest.mark.parametrize("slot", [99, 4, -1, "99", 2.5, [], {}, "two"])
def test_a_slot_of_nobody_is_not_kept_as_one(slot: object) -> None:
    deed = {"agent_slot": slot, "name": "Ona", "did": "cut the rope"}
    actions = [deed, {"agent_slot": 2, "name": "Tom", "did": "ran"}]
    payload = {"canon_locks": ["The lamp burns."], "character_actions": actions}
    known = with_known_slots(payload, [1, 2, 3])
    assert known == payload | {"character_actions": [deed | {"agent_slot": 0}, actions[1]]}
    assert (
        with_known_slots({"character_actions": deed}, [1])["character_actions"]
        == known["character_actions"][0]
    )


@pytest.mark.parametrize("slot", [0, 1, 3, "0", "3", "", None])
def test_a_slot_of_the_cast_is_kept_as_it_came(slot: object) -> None:
    payload = {"character_actions": [{"agent_slot": slot, "did": "ran"}, {"did": "fell"}, "sat"]}
    assert with_known_slots(payload, [1, 2, 3]) == payload


@pytest.mark.parametrize("payload", [{}, {"character_actions": None}, {"character_actions": "x"}])
def test_a_payload_without_deeds_is_kept_as_it_came(payload: dict[str, Any]) -> None:
    assert with_known_slots(payload, [1]) == payload
