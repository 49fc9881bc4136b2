"""The content of compose.yaml as Python objects."""

from pathlib import Path
from typing import Any

import yaml
from django.conf import settings

COMPOSE: dict[str, Any] = yaml.safe_load(
    (Path(settings.BASE_DIR) / "compose.yaml").read_text(encoding="utf-8")
)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
