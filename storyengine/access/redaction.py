"""Secrets and texts of stories stay out of the log, whoever writes the line."""

import logging
import traceback
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.db import Error as DatabaseError
from kombu.exceptions import OperationalError as BrokerError
from redis.exceptions import RedisError

from storyengine.settings.environment import read_text

# A shorter value is too likely to be a part of an ordinary word.
SHORTEST_SECRET = 4
# Their passwords are secrets as they are written there, and as they are meant.
ADDRESSES = ("DATABASE_URL", "CELERY_BROKER_URL")


class RedactingFormatter(logging.Formatter):
    """Replaces every configured secret in the finished line, tracebacks included.

    What an error says of itself is left out too: PostgreSQL repeats the row that it refused, and a
    bug may carry any words of a story. Shown are errors of files and connections, and those of a
    class with `is_for_the_log`; with DEBUG all, except what databases say.
    """

    def format(self, record: logging.LogRecord) -> str:
        record.message = self.words_of(record)
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        line = self.formatMessage(record)
        where = where_it_failed(record)
        return redact(f"{line}\n{where}" if where else line)

    def words_of(self, record: logging.LogRecord) -> str:
        """The record's message without secrets and without the words of errors."""
        return redact(_without_words(record.getMessage(), _errors_of(record)))


def redact(line: str) -> str:
    """The line without the secrets of this installation."""
    for secret in _secrets():
        line = line.replace(secret, "[secret]")
    return line


def where_it_failed(record: logging.LogRecord) -> str:
    """The traceback of the record's error, its causes first; "" without an error.

    It has lines of the program, which hold no text of a story, and the kinds of the errors.
    """
    errors = list(_chain(record.exc_info[1] if record.exc_info else None))
    where = "\n".join(_describe(error) for error in reversed(errors))
    # One that may be shown can repeat the words of one that may not.
    return _without_words(where, errors)


def _without_words(text: str, errors: Iterable[BaseException]) -> str:
    for error in errors:
        # As a traceback writes it, and as whoever logs the error itself does.
        for words in (repr(error), str(error)):
            if len(words) >= SHORTEST_SECRET and not _may_be_shown(error):
                text = text.replace(words, f"[words of {type(error).__name__}]")
    return text


def _describe(error: BaseException) -> str:
    words = f": {error}" if _may_be_shown(error) and str(error) else ""
    return "".join([*traceback.format_tb(error.__traceback__), type(error).__name__, words])


def _may_be_shown(error: BaseException) -> bool:
    """Errors of files and connections name those; what else marks itself names no text either."""
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
        settings.DATABASES["default"].get("PASSWORD", ""),
    )
    return _longest_first(values, tuple(read_text(name) for name in ADDRESSES))


# Asked for several times a line, of settings that only tests change.
@lru_cache(maxsize=8)
def _longest_first(values: tuple[str, ...], addresses: tuple[str, ...]) -> tuple[str, ...]:
    secrets = set(values)
    for written in addresses:
        # Celery takes several brokers, separated by semicolons.
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
