"""Formats lines of the log, as JSON for programs or as text for people, and drops lines."""

import json
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler

from sessions.log_lines import current_ids
from sessions.storage import is_disk_full
from storyengine.access.redaction import RedactingFormatter, redact, where_it_failed

REQUESTS = "storyengine.access.requests"
SECONDS_BETWEEN_LINES = 60.0


class TextFormatter(RedactingFormatter):
    """A formatter that writes the message, followed by `name=value` for each field and id."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (logging's own name)
        said = " ".join(f"{name}={_shown(one)}" for name, one in _fields(record).items())
        line = super().formatMessage(record)
        return f"{line} {said}" if said else line


class JsonFormatter(RedactingFormatter):
    """A formatter that writes each record as one line of JSON, even if its message or traceback has
    several lines."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            # Secrets are removed before the text becomes JSON. In JSON, a secret with quotation
            # marks is escaped, and would not be found.
            "event": self.words_of(record),
        }
        for name, one in _fields(record).items():
            line.setdefault(name, redact(one) if isinstance(one, str) else one)
        if where := where_it_failed(record):
            line["traceback"] = redact(where)
        return json.dumps(line, ensure_ascii=False, default=str)


class LogFile(RotatingFileHandler):
    """A log file. While the disk is full, lines are dropped from the file, but the console still
    gets them.

    By default, logging would print a traceback for each dropped line.
    """

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (logging's own name)
        if not is_disk_full(sys.exception()):
            super().handleError(record)


class LeaveOutRequests(logging.Filter):
    """A filter that drops the lines of successful requests, because each open page sends a request
    every two seconds."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.name != REQUESTS or record.levelno >= logging.WARNING


class OnlyBugs(logging.Filter):
    """A filter that drops the lines of Django's logger that have no traceback. Such a line only
    reports an error status, which the log line of the request has too."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.exc_info is not None


@dataclass
class _Line:
    next_at: float
    left_out: int = 0


class OnceAMinute(logging.Filter):
    """A filter that lets one line a minute pass for each wording. If lines were dropped before this
    line, its field `times` has the number of these lines and this one together.

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


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {**getattr(record, "fields", {}), **_missing_ids(record)}


def _missing_ids(record: logging.LogRecord) -> dict[str, object]:
    fields = getattr(record, "fields", {})
    return {name: one for name, one in current_ids().items() if name not in fields}


def _shown(field: object) -> str:
    """Return a field as text, or as JSON if the text could be mistaken for several fields."""
    text = str(field)
    return text if text.isprintable() and not set(text) & {" ", '"', "="} else json.dumps(text)
