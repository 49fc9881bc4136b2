"""Secrets stay out of the log, whoever writes the line."""

import logging
from collections.abc import Iterator

from django.conf import settings

# A shorter value is too likely to be a part of an ordinary word.
SHORTEST_SECRET = 4


class RedactingFormatter(logging.Formatter):
    """Replaces every configured secret in the finished line, tracebacks included."""

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        for secret in sorted(set(_secrets()), key=len, reverse=True):
            if len(secret) >= SHORTEST_SECRET:
                line = line.replace(secret, "[secret]")
        return line


def _secrets() -> Iterator[str]:
    yield settings.SECRET_KEY
    yield settings.PASSWORD
    yield settings.API_TOKEN
    yield settings.OPENAI_API_KEY
    yield settings.DATABASES["default"].get("PASSWORD", "")
