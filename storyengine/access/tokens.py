"""The API's token, tried as the password is: compared in constant time, and not without end.

Wrong ones are counted where wrong passwords are (see AXES_FAILURE_LIMIT in the settings), apart
from them: a program with an old token keeps no Game Master from the login page.
"""

import logging
from enum import Enum, auto
from threading import Lock

from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare

from agents.running.database import in_database
from sessions.log_lines import warn
from storyengine.stack.storage_refusals import STORAGE_ERRORS

logger = logging.getLogger(__name__)

_COUNTED_AS = {"username": "token of the API"}
_VERDICT = "storyengine.token"
# As for passwords (see storyengine.access.views): those sent at once would all be tried before the
# first wrong one is counted.
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


def try_token(request: HttpRequest) -> Verdict | None:
    token = _given(request)
    if token and settings.API_TOKEN:
        with _one_try:
            request.META[_VERDICT] = _try(token, request.META.get("REMOTE_ADDR"))
    return verdict_on(request)


async def atry_token(request: HttpRequest) -> Verdict | None:
    if _given(request) and settings.API_TOKEN:
        return await in_database(try_token, request)
    return None


def is_right(request: HttpRequest) -> bool:
    """Without a count of wrong ones: for where nothing can be counted."""
    return bool(settings.API_TOKEN) and constant_time_compare(_given(request), settings.API_TOKEN)


def _given(request: HttpRequest) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _try(token: str, address: str | None) -> Verdict:
    # All that is kept of a try: nothing that was sent with it.
    visitor = HttpRequest()
    visitor.META["REMOTE_ADDR"] = address
    is_right = constant_time_compare(token, settings.API_TOKEN)
    try:
        is_paused = AxesProxyHandler.is_locked(visitor, _COUNTED_AS)
        if is_right and not is_paused:
            return Verdict.RIGHT
        warn(logger, "token refused", address=address, tried=not is_paused)
        if not is_paused:
            AxesProxyHandler.user_login_failed(__name__, _COUNTED_AS, visitor)
            is_paused = getattr(visitor, "axes_locked_out", False)
    except STORAGE_ERRORS:
        # Nothing can be counted; whoever has the token learns from the view what is wrong.
        return Verdict.RIGHT if is_right else Verdict.WRONG
    return Verdict.PAUSED if is_paused else Verdict.WRONG
