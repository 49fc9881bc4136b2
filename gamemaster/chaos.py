"""What `python -m chaos` has to know of this way to play."""

from typing import Any

SCENARIO: dict[str, Any] = {}
