"""Formats lines of the log as JSON for programs or as text for people."""

import json
import logging
import sys
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler

from agents.storage import is_disk_full
from sessions.log_lines import current_ids
from storyengine.access.redaction import RedactingFormatter, redact, where_it_failed

REQUESTS = "storyengine.operations.requests"


class TextFormatter(RedactingFormatter):
    """A formatter that writes the message, and then `name=value` for each field and id."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (logging's own name)
        said = " ".join(f"{name}={_shown(one)}" for name, one in _fields(record).items())
        line = super().formatMessage(record)
        return f"{line} {said}" if said else line


class JsonFormatter(RedactingFormatter):
    """A formatter that writes one JSON object a line, even if the message or its traceback has
    several lines."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            # Secrets are removed before the encoding. The encoding changes a secret that has
            # quotation marks, so it would not be found afterwards.
            "event": self.words_of(record),
        }
        for name, one in _fields(record).items():
            line.setdefault(name, redact(one) if isinstance(one, str) else one)
        if where := where_it_failed(record):
            line["traceback"] = redact(where)
        return json.dumps(line, ensure_ascii=False, default=str)


class LogFile(RotatingFileHandler):
    """A log file. While the disk is full, it drops lines without a traceback.

    The console still has the line. By default logging would print a traceback for it.
    """

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (logging's own name)
        if not is_disk_full(sys.exception()):
            super().handleError(record)


class LeaveOutRequests(logging.Filter):
    """A filter that leaves out requests that succeeded, because each open page sends one every two
    seconds."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.name != REQUESTS or record.levelno >= logging.WARNING


class OnlyBugs(logging.Filter):
    """A filter that leaves out Django's lines about error statuses, because the line of each
    request has the status."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.exc_info is not None


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {**getattr(record, "fields", {}), **_missing_ids(record)}


def _missing_ids(record: logging.LogRecord) -> dict[str, object]:
    fields = getattr(record, "fields", {})
    return {name: one for name, one in current_ids().items() if name not in fields}


def _shown(field: object) -> str:
    """Return a field as text. If the text could be mistaken for several fields, return it as
    JSON."""
    text = str(field)
    return text if text.isprintable() and not set(text) & {" ", '"', "="} else json.dumps(text)
