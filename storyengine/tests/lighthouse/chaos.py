"""The scenario with which `python -m chaos` plays a lighthouse.

The narrator answers, and the narrator's turns ask for the tide.
"""

from typing import Any

SCENARIO: dict[str, Any] = {"names_actor": False}
