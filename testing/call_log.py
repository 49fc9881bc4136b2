"""The log of the fake model server's calls, in memory and as lines of JSON."""

import json
from pathlib import Path
from typing import Any


class CallLog:
    """The log of calls. A record has the whole prompt of its call. If `prompt_end` is given, the
    record has only the last `prompt_end` characters of the prompt."""

    def __init__(self, path: Path | None, prompt_end: int | None = None) -> None:
        self._prompt_end = prompt_end
        self._file = path.open("a", buffering=1, encoding="utf-8") if path else None
        self.records: list[dict[str, Any]] = []

    def add(self, prompt: str, record: dict[str, Any]) -> None:
        """Add the record of a call whose answer was sent. `prompt` is the text of all messages."""
        kept = prompt if self._prompt_end is None else prompt[-self._prompt_end :]
        record = {"n": len(self.records) + 1, **record, "prompt": kept}
        self.records.append(record)
        if self._file:
            self._file.write(json.dumps(record) + "\n")

    def close(self) -> None:
        if self._file:
            self._file.close()
