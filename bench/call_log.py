"""What the fake model server remembers of each call, in memory and as lines of JSON."""

import json
from pathlib import Path
from typing import Any


class CallLog:
    def __init__(self, path: Path | None) -> None:
        self._file = path.open("a", buffering=1, encoding="utf-8") if path else None
        self.records: list[dict[str, Any]] = []

    def add(self, prompt: str, record: dict[str, Any]) -> None:
        """`prompt` is the text of all messages; called after the answer, which it delays not."""
        record = {"n": len(self.records) + 1, **record, "prompt": prompt}
        self.records.append(record)
        if self._file:
            self._file.write(json.dumps(record) + "\n")

    def close(self) -> None:
        if self._file:
            self._file.close()
