"""Drops repeated lines of the log, because any visitor can cause some lines without limit."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

SECONDS_BETWEEN_LINES = 60.0


@dataclass
class _Line:
    next_at: float
    left_out: int = 0


class OnceAMinute(logging.Filter):
    """A filter that lets one line a minute pass for each wording. If lines were dropped before this
    line, its field `times` has the number of all of them, with this line.

    A web server warns of each request that it refuses. Without this filter, visitors could fill the
    disk.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        # The number of dropped lines for each wording, and the time of the next line. A wording is
        # a message before its arguments are filled in, so there are only a few wordings.
        self._lines: dict[str, _Line] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno > logging.WARNING:
            return True
        now = self._clock()
        line = self._lines.setdefault(str(record.msg), _Line(next_at=now))
        if now < line.next_at:
            line.left_out += 1
            return False
        if line.left_out:
            fields = getattr(record, "fields", {})
            record.fields = {**fields, "times": line.left_out + 1}
        self._lines[str(record.msg)] = _Line(next_at=now + SECONDS_BETWEEN_LINES)
        return True
