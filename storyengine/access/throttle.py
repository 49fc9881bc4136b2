"""Guessing the password is slow: a few tries, then a pause."""

from contextlib import suppress

from django.core.cache import cache
from django.http import HttpRequest

TRIES = 10
PAUSE_SECONDS = 300


def take_try(request: HttpRequest) -> bool:
    """Count a try before it is made, so that parallel ones cannot pass the limit; False: refuse it.

    The pause runs from the first try of a row.
    """
    key = _key(request)
    for _ in range(2):
        cache.add(key, 0, timeout=PAUSE_SECONDS)
        # The count may run out between the two.
        with suppress(ValueError):
            return bool(cache.incr(key) <= TRIES)
    return False


def give_back_try(request: HttpRequest) -> None:
    """The password was right: only wrong ones count."""
    try:
        cache.decr(_key(request))
    except ValueError:
        # The count ran out meanwhile.
        return


def _key(request: HttpRequest) -> str:
    return f"login-tries-{request.META.get('REMOTE_ADDR', '')}"
