"""The scenario with which `python -m chaos` plays a lighthouse.

The narrator's turns ask for the tide. After the words "Keep watch", the keepers act without
prompts. Each reply is made into four events, one of which is entered in the log.
"""

from typing import Any

from storyengine.tests.lighthouse.keeper import WATCH
from storyengine.tests.lighthouse.state import REFUEL

SCENARIO: dict[str, Any] = {
    "prompts": [
        {"agent_slot": None},
        {"agent_slot": None, "user_text": ""},
        {"agent_slot": 1},
        {"agent_slot": 2, "given": {"degrees": 90, "with_a_lamp": True}},
        {"agent_slot": 2, "user_text": ""},
        {"agent_slot": 1, "user_text": WATCH},
        {"agent_slot": 2, "user_text": WATCH},
    ],
    "acts": [{"act": REFUEL.name, "arguments": {"litres": litres}} for litres in (-1, 1)],
    "replies_end": "*aside* It is late.\n\n*signal* All is well.\n\n*sea* A wave breaks.",
    "thought": "*thinks*",
    "tools": [
        ("light", {"lamp": "north"}),
        ("light", {"lamp": "lamp {}"}),
        ("hail", {"name": "Ann {}"}),
        ("feel", {}),
        ("ringBell", {"strokesOfTheBell": 3}),
        ("lookOut", {"sails": "red sails"}),
    ],
    "answers": {
        "nameShip": {"shipName": "the Gull"},
        "memory": {
            "learned": [{"who": "Mara", "what": "The sea rose.", "source": "witnessed"}],
        },
    },
}
