"""Formats lines of the log, as JSON for programs or as text for people, and drops lines.

Secrets and texts of stories are kept out of the log, even out of lines that libraries write.
"""

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from logging.handlers import RotatingFileHandler
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.db import Error as DatabaseError
from kombu.exceptions import OperationalError as BrokerError
from redis.exceptions import RedisError

from agents.calling.servers.seen_keys import seen_keys
from sessions.log_lines import current_ids
from sessions.storage import is_disk_full
from storyengine.settings.environment import read_text

REQUESTS = "storyengine.access.requests"
SECONDS_BETWEEN_LINES = 60.0
# The fewest characters of a secret that is replaced. A shorter secret could be a part of ordinary
# words.
SHORTEST_SECRET = 4
# The environment variables with addresses. A password in such an address is a secret, both
# percent-encoded and decoded.
ADDRESSES = ("DATABASE_URL", "STORYENGINE_DIRECT_DATABASE_URL", "CELERY_BROKER_URL")


class RedactingFormatter(logging.Formatter):
    """A formatter that replaces every configured secret in the finished line and its traceback.

    It also leaves out the messages of errors. PostgreSQL quotes the row that it refused, and the
    message of a bug may have any words of a story. The messages of two kinds of errors are shown:
    errors of files and connections, and errors whose class has `is_for_the_log`. With DEBUG, only
    the messages of database errors are left out.
    """

    def format(self, record: logging.LogRecord) -> str:
        record.message = self.words_of(record)
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        line = self.formatMessage(record)
        where = where_it_failed(record)
        return redact(f"{line}\n{where}" if where else line)

    def words_of(self, record: logging.LogRecord) -> str:
        """Return the record's message without secrets and without the messages of errors."""
        return redact(_without_words(record.getMessage(), _errors_of(record)))


def redact(line: str) -> str:
    """Return the line without the secrets of this installation."""
    for secret in _secrets():
        line = line.replace(secret, "[secret]")
    return line


def where_it_failed(record: logging.LogRecord) -> str:
    """Return the traceback of the record's error, or "" if the record has no error. If other errors
    caused this error, their tracebacks come first.

    A traceback has lines of source code and the classes of errors, which have no text of a story.
    """
    errors = list(_chain(record.exc_info[1] if record.exc_info else None))
    where = "\n".join(_describe(error) for error in reversed(errors))
    # The message of an error may quote the message of another error. If the log may not have the
    # quoted message, it is removed here.
    return _without_words(where, errors)


def _without_words(text: str, errors: Iterable[BaseException]) -> str:
    for error in errors:
        # A log line may contain the error's repr or its plain message.
        for words in (repr(error), str(error)):
            if len(words) >= SHORTEST_SECRET and not _may_be_shown(error):
                text = text.replace(words, f"[words of {type(error).__name__}]")
    return text


def _describe(error: BaseException) -> str:
    words = f": {error}" if _may_be_shown(error) and str(error) else ""
    return "".join([*traceback.format_tb(error.__traceback__), type(error).__name__, words])


def _may_be_shown(error: BaseException) -> bool:
    """Return whether the log may have the message of this error, because the message has no text of
    a story or DEBUG is on."""
    if isinstance(error, DatabaseError):
        return False
    return (
        settings.DEBUG
        or isinstance(error, OSError | BrokerError | RedisError)
        or getattr(error, "is_for_the_log", False) is True
    )


def _errors_of(record: logging.LogRecord) -> Iterator[BaseException]:
    if record.exc_info:
        yield from _chain(record.exc_info[1])
    arguments = record.args.values() if isinstance(record.args, Mapping) else record.args or ()
    for argument in arguments:
        if isinstance(argument, BaseException):
            yield from _chain(argument)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _secrets() -> tuple[str, ...]:
    values = (
        settings.SECRET_KEY,
        settings.PASSWORD,
        settings.API_TOKEN,
        settings.OPENAI_API_KEY,
        *settings.SERVER_KEYS.values(),
        *seen_keys(),
        settings.DATABASES["default"].get("PASSWORD", ""),
        (settings.DIRECT_DATABASE or {}).get("PASSWORD", ""),
    )
    return _longest_first(values, tuple(read_text(name) for name in ADDRESSES))


# The result is cached, because each log line needs it several times. Outside of tests, the settings
# never change.
@lru_cache(maxsize=8)
def _longest_first(values: tuple[str, ...], addresses: tuple[str, ...]) -> tuple[str, ...]:
    secrets = set(values)
    for written in addresses:
        # CELERY_BROKER_URL may have several addresses, separated by semicolons.
        for address in written.split(";"):
            password = _password_of(address)
            secrets |= {password, unquote(password)}
    long_enough = (secret for secret in secrets if len(secret) >= SHORTEST_SECRET)
    return tuple(sorted(long_enough, key=len, reverse=True))


def _password_of(address: str) -> str:
    try:
        return urlsplit(address).password or ""
    except ValueError:
        return ""


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
    """Return the fields of the line, and then the ids that are not among them."""
    fields = getattr(record, "fields", {})
    return {**fields, **{name: one for name, one in current_ids().items() if name not in fields}}


def _shown(field: object) -> str:
    """Return a field as text, or as JSON if the text could be mistaken for several fields."""
    text = str(field)
    return text if text.isprintable() and not set(text) & {" ", '"', "="} else json.dumps(text)
