"""What the fake model server remembers of each call, in memory and as lines of JSON."""

import json
from pathlib import Path
from typing import Any


class CallLog:
    """Of each prompt all is kept, or the last `prompt_end` characters."""

    def __init__(self, path: Path | None, prompt_end: int | None = None) -> None:
        self._prompt_end = prompt_end
        self._file = path.open("a", buffering=1, encoding="utf-8") if path else None
        self.records: list[dict[str, Any]] = []

    def add(self, prompt: str, record: dict[str, Any]) -> None:
        """`prompt` is the text of all messages; called after the answer, which it delays not."""
        kept = prompt if self._prompt_end is None else prompt[-self._prompt_end :]
        record = {"n": len(self.records) + 1, **record, "prompt": kept}
        self.records.append(record)
        if self._file:
            self._file.write(json.dumps(record) + "\n")

    def close(self) -> None:
        if self._file:
            self._file.close()
