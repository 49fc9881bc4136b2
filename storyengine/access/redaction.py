"""Secrets and texts of stories stay out of the log, whoever writes the line."""

import logging
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.db import Error as DatabaseError

from storyengine.settings.environment import read_text

# A shorter value is too likely to be a part of an ordinary word.
SHORTEST_SECRET = 4
# Their passwords are secrets as they are written there, and as they are meant.
ADDRESSES = ("DATABASE_URL", "CELERY_BROKER_URL")


class RedactingFormatter(logging.Formatter):
    """Replaces every configured secret in the finished line, tracebacks included.

    What a database says of an error is left out too: PostgreSQL repeats there the row that it
    refused.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        if record.exc_info:
            line = _without_words_of_databases(line, record.exc_info[1])
        for secret in sorted(set(_secrets()), key=len, reverse=True):
            if len(secret) >= SHORTEST_SECRET:
                line = line.replace(secret, "[secret]")
        return line


def _without_words_of_databases(line: str, error: BaseException | None) -> str:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, DatabaseError):
            # As a traceback writes it, and as whoever logs the error itself does.
            for words in (repr(error), str(error)):
                if len(words) >= SHORTEST_SECRET:
                    line = line.replace(words, "[the database's words]")
        error = error.__cause__ or error.__context__
    return line


def _secrets() -> Iterator[str]:
    yield settings.SECRET_KEY
    yield settings.PASSWORD
    yield settings.API_TOKEN
    yield settings.OPENAI_API_KEY
    yield settings.DATABASES["default"].get("PASSWORD", "")
    for name in ADDRESSES:
        # Celery takes several brokers, separated by semicolons.
        for address in read_text(name).split(";"):
            password = _password_of(address)
            yield password
            yield unquote(password)


def _password_of(address: str) -> str:
    try:
        return urlsplit(address).password or ""
    except ValueError:
        return ""
