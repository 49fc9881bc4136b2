"""Functions that read log lines and metrics in tests."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from storyengine.operations.exposition import render_metrics


@dataclass
class Written:
    as_json: list[str] = field(default_factory=list)
    as_text: list[str] = field(default_factory=list)

    def events(self, name: str) -> list[dict[str, Any]]:
        parsed = [json.loads(line) for line in self.as_json]
        return [line for line in parsed if line["event"] == name]

    def event(self, name: str) -> dict[str, Any]:
        (line,) = self.events(name)
        return line

    @property
    def all(self) -> str:
        return "\n".join([*self.as_json, *self.as_text])


def read_metrics() -> dict[str, float]:
    """Return the value of each metric of this installation. The keys are the names as Prometheus
    shows them, with their labels."""
    text = render_metrics().decode()
    return {name: float(value) for name, value in re.findall(r"^(\w+\{?.*) (\S+)$", text, re.M)}


def growth(before: dict[str, float]) -> dict[str, float]:
    now = read_metrics()
    return {name: now[name] - before.get(name, 0) for name in now if now[name] != before.get(name)}
