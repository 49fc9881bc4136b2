"""The scenario of the exploration that `python -m chaos` plays.

The player's words have instructions in brackets, which the scripted model server follows
(`testing/world_replies.py`). With `[perhaps]`, only every other reply follows them, so that another
reply makes another world.
"""

from typing import Any

_PLAYS = (
    "I look around.",
    "",
    "I go to the mill. [perhaps] [go the mill; Evening; Osk] [tell Tove sits on the sacks.]",
    "I go down to the water. [perhaps] [go the landing; Night; Osk, Ib] [meet the ringer; Tall]",
    "I go back in. [go The Ferry Inn; Dawn; Marta Quill]",
    "I wait. [wait Midnight; 25]",
    "I wait a while. [perhaps] [wait Late; 7] [wait Later; 7]",
    "I look for a dry place. [go the drying loft; Noon; Runa]",
    "I go out again by the old landing. [perhaps] [go that old landing; Dusk]",
    "I ask who is there. [perhaps] [meet Guard; A man with a lamp] [meet Child; Somebody small]",
)


def _move(to: str, *along: str) -> tuple[str, dict[str, Any]]:
    arguments = {"destination": to, "narrativeTime": "Night", "accompaniedBy": list(along)}
    return "moveToLocation", arguments


SCENARIO: dict[str, Any] = {
    "setup": {
        "title": "The Last Ferry",
        "description": "A river inn on the night when the ferry does not come back.",
        "narrative_time": "Dusk",
        "places": [{"name": name} for name in ("The Ferry Inn", "The Landing", "The Mill")],
        "people": [
            {"name": "Osk", "description": "The innkeeper."},
            {"name": "Pia", "description": "His sister."},
            {
                "name": "Marta Quill",
                "description": "The bell ringer.",
                "location": "The Landing",
                "is_discovered": False,
                "aliases": ["the ringer"],
                # A text with this mark may reach only the narrator, while the person is present,
                # and the simulation of what this person does out of sight (`chaos/worlds.py`).
                "knowledge": [{"content": "[secret of Marta Quill] Tomas lives."}],
            },
            {"name": "Ib", "description": "The miller's boy.", "location": "The Mill"},
            {"name": "Runa", "description": "The miller.", "location": "The Mill"},
            {
                "name": "Tove",
                "description": "Somebody between the sacks.",
                "location": "The Mill",
                "is_discovered": False,
                "encounter_chance": 0.5,
                "knowledge": [{"content": "[secret of Tove] The chain is cut."}],
            },
        ],
        "starting_place": "The Ferry Inn",
        "persona": {"name": "Edda Linn", "seen_as": "A woman in a long coat."},
    },
    "prompts": [{"agent_slot": None, "user_text": words} for words in _PLAYS],
    "tools": [
        _move("the mill", "Osk"),
        _move("The Landing", "osk", "Nobody"),
        _move("the drying loft"),
        _move("that inn"),
        ("advanceTime", {"narrativeTime": "Midnight", "ticks": 25}),
        ("advanceTime", {"narrativeTime": "Late", "ticks": 1}),
        *(
            (
                "discoverCharacter",
                {"characterName": name, "introduction": "Somebody.", "goals": "To be seen."},
            )
            for name in ("the ringer", "Tove", "Guard")
        ),
    ],
}
