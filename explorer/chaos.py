"""The scenario with which `python -m chaos` plays an exploration.

The scripted model server does what the words have in brackets (`testing/world_replies.py`). With
`[perhaps]`, every other reply does nothing of it, so that another reply makes another world.
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
                # What is marked like this may reach only the narrator, and only while the person
                # is present, and what happens out of sight with this person (`chaos/worlds.py`).
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
}
