"""Facts about this mode, by which `python -m chaos` can play it."""

from typing import Any

SCENARIO: dict[str, Any] = {}
