"""How `python -m chaos` plays this: the narrator answers, whose turns ask for the tide."""

from typing import Any

SCENARIO: dict[str, Any] = {"names_actor": False}
