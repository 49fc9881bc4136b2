"""Decides who may call the API: programs with its token, or any program on this machine.

A token is checked in constant time, and the number of wrong tokens is limited. The same limit
applies to wrong tokens as to wrong passwords (AXES_FAILURE_LIMIT in the settings). But the two are
counted separately, so that a program with an old token does not lock the Game Master out of the
login page.
"""

import logging
from collections.abc import Awaitable
from enum import Enum, auto
from threading import Lock

from asgiref.sync import async_to_sync
from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.crypto import constant_time_compare

from agents.running.database import in_database, in_database_for_strangers
from sessions import counts
from sessions.log_lines import warn
from storyengine.access.middleware import InlineMiddleware, is_cross_site
from storyengine.access.problem import problem
from storyengine.access.visitors import WaitingTries
from storyengine.stack.storage_refusals import STORAGE_ERRORS

API_PREFIX = "/api/"
# Addresses whose answers have no text of a story. A program with the token may read these
# addresses, and so may a browser with a login.
READABLE = ("/api/docs", "/api/openapi.json", "/metrics")
logger = logging.getLogger(__name__)

_COUNTED_AS = {"username": "token of the API"}
_VERDICT = "storyengine.token"
# With this lock, wrong tokens are counted one after the other. Otherwise many tokens that come at
# once would all be tried before the first of them is counted. The check of a right token does not
# use the lock.
_one_try = Lock()
_waiting = WaitingTries()


class Verdict(Enum):
    RIGHT = auto()
    WRONG = auto()
    # The verdict after too many wrong tokens from the visitor's address. Even a right token is then
    # refused.
    PAUSED = auto()


def verdict_on(request: HttpRequest) -> Verdict | None:
    """Return the verdict on the request's token that `atry_token` has stored, or None if the
    request has no token."""
    found: Verdict | None = request.META.get(_VERDICT)
    return found


async def atry_token(request: HttpRequest) -> Verdict | None:
    """Try the request's token, store the verdict for `verdict_on`, and return the verdict.

    The token of a request is tried only once, even if this function is called again after the body
    was read. A right token does not wait for wrong tokens.
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
    """Return whether the token is right. The database is not asked, and wrong tokens are not
    counted."""
    return bool(settings.API_TOKEN) and constant_time_compare(_given(request), settings.API_TOKEN)


def _given(request: HttpRequest) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _visitor(request: HttpRequest) -> HttpRequest:
    """Return a request that has only the visitor's address, because the library that counts
    failures would store other values too."""
    visitor = HttpRequest()
    visitor.META["REMOTE_ADDR"] = request.META.get("REMOTE_ADDR")
    return visitor


def _look_for_pause(visitor: HttpRequest, waiting: int) -> Verdict:
    """Return the verdict on a right token: whether the visitor has sent too many wrong tokens.
    `waiting` is the number of the visitor's wrong tokens that the database has not counted yet."""
    try:
        failures = AxesProxyHandler.get_failures(visitor, _COUNTED_AS) + waiting
    except STORAGE_ERRORS:
        # The token is right, so the visitor may pass. The view itself will report that the database
        # fails.
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
        # The token is wrong, and is refused even if the database cannot count it now.
        return Verdict.WRONG
    return Verdict.PAUSED if is_paused else Verdict.WRONG


def _note_refusal(visitor: HttpRequest, *, was_looked_at: bool) -> None:
    warn(logger, "token refused", address=visitor.META["REMOTE_ADDR"], tried=was_looked_at)
    counts.login_failures.inc()


class ApiAccessMiddleware(InlineMiddleware):
    """A middleware that refuses calls of the API from callers who may not use it.

    No cookie gives access to the API, so the API needs no CSRF token. The READABLE addresses answer
    only GET and HEAD. If a request for them has no token, storyengine.access.login_gate decides.

    Without a password and a token, any program on this machine may call the API. A browser is such
    a program, so requests that a page of another site may have caused are refused.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if not self.is_async and is_for_programs(request):
            try_token(request)
        return super().__call__(request)

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        if is_for_programs(request):
            await atry_token(request)
        return await super()._answer(request)

    def before(self, request: HttpRequest) -> JsonResponse | None:
        """Return the refusal of the request, or None if the request may pass. `atry_token` must
        have tried the request's token already."""
        if not is_for_programs(request):
            return None
        if not request.path_info.startswith(API_PREFIX):
            return _refuse_without_token(request)
        if not settings.PASSWORD and is_cross_site(request):
            return problem(
                403,
                "Cross-site request",
                "The API answers programs and its own pages, not other sites.",
            )
        return _refuse_without_token(request) or _refuse_body_that_is_not_json(request)


def is_for_programs(request: HttpRequest) -> bool:
    return request.path_info.startswith(API_PREFIX) or request.path_info in READABLE


def is_readable(request: HttpRequest) -> bool:
    return request.method in ("GET", "HEAD") and request.path_info in READABLE


def ask_for_token() -> JsonResponse:
    if not settings.API_TOKEN:
        return _unauthorized("Set STORYENGINE_API_TOKEN and restart; until then the API is closed.")
    return _unauthorized("Send the header 'Authorization: Bearer' with STORYENGINE_API_TOKEN.")


def _refuse_without_token(request: HttpRequest) -> JsonResponse | None:
    verdict = verdict_on(request)
    if verdict is Verdict.PAUSED:
        seconds = round(settings.AXES_COOLOFF_TIME.total_seconds())
        response = problem(
            429,
            "Too many wrong tokens",
            f"Too many wrong tokens came from this address. Wait {seconds // 60} minutes and try "
            "again; nothing was changed.",
        )
        response.headers["Retry-After"] = str(seconds)
        return response
    is_open = not (settings.PASSWORD or settings.API_TOKEN)
    if verdict is Verdict.RIGHT or is_open or (verdict is None and is_readable(request)):
        return None
    return ask_for_token()


def _unauthorized(detail: str) -> JsonResponse:
    response = problem(401, "The API asks for its token", detail)
    response.headers["WWW-Authenticate"] = 'Bearer realm="Story Engine"'
    return response


def _refuse_body_that_is_not_json(request: HttpRequest) -> JsonResponse | None:
    has_body = (
        request.META.get("CONTENT_LENGTH") not in (None, "", "0")
        or "Transfer-Encoding" in request.headers
    )
    if not has_body or request.content_type == "application/json":
        return None
    return problem(415, "Not JSON", "Send the body as application/json.")
