"""The facts about the Game Master's mode that `python -m chaos` needs to play it."""

from typing import Any

SCENARIO: dict[str, Any] = {}
