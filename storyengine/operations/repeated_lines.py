"""How lines of the log are held back that anybody can cause as often as he likes."""

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
    """Write one warning a minute of those with the same words, and say how many it stands for.

    A web server warns of each request that it refuses, and strangers would fill the disk with that.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        # By the words in the source, of which there are few.
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
