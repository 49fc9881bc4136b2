"""What the fake model server remembers of each call, in memory and as lines of JSON."""

import json
from collections import deque
from pathlib import Path
from typing import Any

KEPT_PROMPTS = 200


def shared_prefix_length(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[:middle]):
            low = middle
        else:
            high = middle - 1
    return low


class CallLog:
    def __init__(self, path: Path | None) -> None:
        self._file = path.open("a", buffering=1, encoding="utf-8") if path else None
        self._prompts: deque[str] = deque(maxlen=KEPT_PROMPTS)
        self.records: list[dict[str, Any]] = []

    def add(self, prompt: str, record: dict[str, Any]) -> None:
        """Called after the answer, so that comparing prompts delays nothing."""
        shared = max((shared_prefix_length(prompt, old) for old in self._prompts), default=0)
        self._prompts.append(prompt)
        record = {
            "n": len(self.records) + 1,
            **record,
            "prompt_chars": len(prompt),
            "shared_chars": shared,
        }
        self.records.append(record)
        if self._file:
            self._file.write(json.dumps(record) + "\n")

    def close(self) -> None:
        if self._file:
            self._file.close()
