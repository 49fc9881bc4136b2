import pytest

from memory.blocks.blocks import counting_blocks, in_order, with_known_slots
from memory.models import MemoryBlock
from memory.tests.factories import add_block, add_lock
from sessions.tests.factories import make_active_chapter


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


@pytest.mark.django_db
def test_blocks_in_hand_are_sorted_as_the_database_sorts_them() -> None:
    chapter = make_active_chapter()
    add_lock(chapter, {})
    for first, last, told_until in [(1, 7, 7), (1, 7, None), (1, 7, 2), (8, 14, 14), (8, 14, 9)]:
        delta = MemoryBlock.Type.TURN_DELTA
        add_block(chapter, delta, first, last, {}, audience=[1], told_until=told_until)
    for at in (7, 14, 3):
        add_block(chapter, MemoryBlock.Type.CANON_CORRECTION, at, at, {})
    stored = list(counting_blocks(chapter))
    for in_hand in (reversed(stored), sorted(stored, key=lambda block: block.pk)):
        assert in_order(in_hand) == stored
    assert [block.told_until for block in stored if block.to_prompt_index == 14] == [9, 14, None]
