"""A delta names the members of the cast as the chapter spells them."""

from typing import Any

import pytest

from memory.blocks.cast_names import CastNames, with_cast_names
from sessions.roster import character

CAST = (
    character(1, "Élodie Marchand"),
    character(2, "Tom Vane"),
    character(3, "Tom Adder"),
    character(9, "Old Ilse"),
)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Élodie Marchand", "Élodie Marchand"),
        ("elodie MARCHAND", "Élodie Marchand"),
        ("E\N{COMBINING ACUTE ACCENT}lodie", "Élodie Marchand"),
        ("elodie", "Élodie Marchand"),
        ("Adder", "Tom Adder"),
        ("ilse", "Old Ilse"),
        # Two members have this first name, so it names neither.
        ("Tom", ""),
        ("Élodie's mother", ""),
        ("Tom Vane and Tom Adder", ""),
        ("the", ""),
        ("", ""),
    ],
)
def test_a_name_is_known_in_another_spelling_only_if_one_member_has_it(
    written: str, name: str
) -> None:
    assert CastNames(one.name for one in CAST).name_of(written) == name


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("elodie's arm", "Élodie Marchand's arm"),
        ("ELODIE MARCHAND", "Élodie Marchand"),
        ("tom vane: leg", "Tom Vane: leg"),
        ("tom's leg", "tom's leg"),
        # The key may be about a thing that is called like a part of a name.
        ("adder", "adder"),
        ("adder: loose", "adder: loose"),
        ("the lamp", "the lamp"),
    ],
)
def test_the_subject_of_a_state_is_named_like_the_member(written: str, kept: str) -> None:
    told = with_cast_names({"state_changes": [{"key": written, "after": "x"}, "plain"]}, CAST)
    assert told == {"state_changes": [{"key": kept, "after": "x"}, "plain"]}


def test_all_fields_that_name_people_are_spelt_and_sentences_stay() -> None:
    delta: dict[str, Any] = {
        "memory_type": "turn_delta",
        "major_events": [{"event": "elodie fell", "participants": ["elodie", "the crowd", 7]}],
        "character_actions": {"agent_slot": "3", "name": "", "did": "ran"},
        "relationship_shifts": [{"between": "elodie and tom adder", "change": "trust"}],
        "items_clues_discovered": [{"thing": "key", "who_found": "ILSE"}, "a list"],
        "unresolved_threads": [{"thread": "elodie"}],
    }
    assert with_cast_names(delta, CAST) == delta | {
        "major_events": [
            {"event": "elodie fell", "participants": ["Élodie Marchand", "the crowd", 7]}
        ],
        "character_actions": {"agent_slot": "3", "name": "Tom Adder", "did": "ran"},
        "relationship_shifts": [{"between": "Élodie Marchand, Tom Adder", "change": "trust"}],
        "items_clues_discovered": [{"thing": "key", "who_found": "Old Ilse"}, "a list"],
    }
