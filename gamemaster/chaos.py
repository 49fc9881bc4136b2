"""The facts about this mode that `python -m chaos` needs."""

from typing import Any

SCENARIO: dict[str, Any] = {}
