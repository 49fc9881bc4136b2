from typing import Any

SCENARIO: dict[str, Any] = {"prompts": [{"agent_slot": None}]}
