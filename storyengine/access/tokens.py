"""The API's token, tried as the password is: compared in constant time, and not without end.

Wrong ones are counted where wrong passwords are (see AXES_FAILURE_LIMIT in the settings), apart
from them: a program with an old token keeps no Game Master from the login page.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from threading import Lock

from asgiref.sync import async_to_sync
from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare

from agents.running.database import in_database, in_database_for_strangers
from sessions.log_lines import warn
from storyengine.access.visitors import counted_address
from storyengine.stack.storage_refusals import STORAGE_ERRORS

logger = logging.getLogger(__name__)

_COUNTED_AS = {"username": "token of the API"}
_VERDICT = "storyengine.token"
# As for passwords (see storyengine.access.views): those sent at once would all be tried before the
# first wrong one is counted. Only wrong ones wait for it.
_one_try = Lock()


class Verdict(Enum):
    RIGHT = auto()
    WRONG = auto()
    # Too many wrong ones came from its address; a right one does not count now.
    PAUSED = auto()


def verdict_on(request: HttpRequest) -> Verdict | None:
    """What `try_token` found; None for a request without a token."""
    found: Verdict | None = request.META.get(_VERDICT)
    return found


async def atry_token(request: HttpRequest) -> Verdict | None:
    """Try the request's token, and return what `verdict_on` returns from then on.

    The token is tried once, also where it is asked for before the request's body is taken. A right
    token does not wait for wrong ones.
    """
    if not (_given(request) and settings.API_TOKEN):
        return None
    scope = getattr(request, "scope", {})
    if _VERDICT not in scope:
        visitor = _visitor(request)
        if is_right(request):
            scope[_VERDICT] = await in_database(_look_for_pause, visitor, _waiting.count(visitor))
        else:
            with _waiting.one_more(visitor):
                scope[_VERDICT] = await in_database_for_strangers(_count_wrong, visitor)
    request.META[_VERDICT] = scope[_VERDICT]
    return verdict_on(request)


try_token = async_to_sync(atry_token)


def is_right(request: HttpRequest) -> bool:
    """Without a count of wrong ones: for where nothing can be counted."""
    return bool(settings.API_TOKEN) and constant_time_compare(_given(request), settings.API_TOKEN)


def _given(request: HttpRequest) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


class _Waiting:
    """How many wrong tokens of each visitor are not counted in the database yet.

    A right token that was sent among many guesses does not overtake them.
    """

    def __init__(self) -> None:
        self._counts: Counter[str | None] = Counter()
        self._one_change = Lock()

    def count(self, visitor: HttpRequest) -> int:
        return self._counts[counted_address(visitor)]

    @contextmanager
    def one_more(self, visitor: HttpRequest) -> Iterator[None]:
        address = counted_address(visitor)
        with self._one_change:
            self._counts[address] += 1
        try:
            yield
        finally:
            with self._one_change:
                self._counts[address] -= 1
                if not self._counts[address]:
                    del self._counts[address]


_waiting = _Waiting()


def _visitor(request: HttpRequest) -> HttpRequest:
    """A request that holds all that is kept of a try: the address, and nothing that was sent."""
    visitor = HttpRequest()
    visitor.META["REMOTE_ADDR"] = request.META.get("REMOTE_ADDR")
    return visitor


def _look_for_pause(visitor: HttpRequest, waiting: int) -> Verdict:
    """Return the verdict on a right token, of whose visitor so many wrong ones wait."""
    try:
        failures = AxesProxyHandler.get_failures(visitor, _COUNTED_AS) + waiting
    except STORAGE_ERRORS:
        # Whoever has the token learns from the view what is wrong.
        return Verdict.RIGHT
    if failures < settings.AXES_FAILURE_LIMIT:
        return Verdict.RIGHT
    _note_refusal(visitor, was_looked_at=False)
    return Verdict.PAUSED


def _count_wrong(visitor: HttpRequest) -> Verdict:
    """Count a wrong token, and return the verdict on it."""
    try:
        with _one_try:
            is_paused = AxesProxyHandler.is_locked(visitor, _COUNTED_AS)
            _note_refusal(visitor, was_looked_at=not is_paused)
            if not is_paused:
                AxesProxyHandler.user_login_failed(__name__, _COUNTED_AS, visitor)
                is_paused = getattr(visitor, "axes_locked_out", False)
    except STORAGE_ERRORS:
        # Nothing can be counted.
        return Verdict.WRONG
    return Verdict.PAUSED if is_paused else Verdict.WRONG


def _note_refusal(visitor: HttpRequest, *, was_looked_at: bool) -> None:
    warn(logger, "token refused", address=visitor.META["REMOTE_ADDR"], tried=was_looked_at)
