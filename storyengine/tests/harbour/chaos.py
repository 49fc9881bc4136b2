from typing import Any

SCENARIO: dict[str, Any] = {"names_actor": False}
