"""Facts about models, read from capabilities.toml."""

import tomllib
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings

_FILE = Path(__file__).with_name("capabilities.toml")


@dataclass(frozen=True)
class ModelFacts:
    """What a model can take; windows and limits in tokens."""

    context_window: int
    max_output: int
    character_output: int
    token_parameter: str
    accepts_temperature: bool
    reasons: bool
    json_schema: bool
    tier: str


def facts_of(model: str) -> ModelFacts:
    """The entry that fits the model's name; for an unknown one the defaults of the environment."""
    known, default = _read_file()
    short_name = model.rsplit("/", 1)[-1]
    for pattern, facts in known:
        if fnmatchcase(model, pattern) or fnmatchcase(short_name, pattern):
            return facts
    return replace(
        default,
        context_window=settings.CONTEXT_WINDOW or default.context_window,
        max_output=settings.MAX_OUTPUT or default.max_output,
    )


@cache
def _read_file() -> tuple[list[tuple[str, ModelFacts]], ModelFacts]:
    data: dict[str, Any] = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    default = data["default"]
    known = []
    for entry in data["model"]:
        pattern = entry.pop("pattern")
        known.append((pattern, ModelFacts(**{**default, **entry})))
    return known, ModelFacts(**default)
