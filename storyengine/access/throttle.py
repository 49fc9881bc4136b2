"""Guessing the password is slow: a few tries, then a pause."""

from django.core.cache import cache
from django.http import HttpRequest

TRIES = 10
PAUSE_SECONDS = 300


def is_paused(request: HttpRequest) -> bool:
    return bool(cache.get(_key(request), 0) >= TRIES)


def count_failure(request: HttpRequest) -> None:
    """The pause runs from the first failure of a row."""
    if not cache.add(_key(request), 1, timeout=PAUSE_SECONDS):
        cache.incr(_key(request))


def _key(request: HttpRequest) -> str:
    return f"login-failures-{request.META.get('REMOTE_ADDR', '')}"
