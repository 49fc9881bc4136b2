"""Decides who may send a body, before any part of the body is stored. The middleware in this folder
applies the same rules to every request."""

from io import BytesIO
from typing import Any

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.exception import response_for_exception
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponseForbidden,
)

from agents.running.database import in_database
from storyengine.access.api_access import (
    ApiAccessMiddleware,
    atry_token,
    is_for_programs,
)
from storyengine.access.login_gate import LoginMiddleware, ask_for_login, is_open
from storyengine.access.middleware import KnownHostMiddleware, SessionMiddleware, is_cross_site
from storyengine.stack.storage_refusals import STORAGE_ERRORS


def _no_view(request: HttpRequest) -> HttpResponse:
    raise NotImplementedError


_hosts, _api = KnownHostMiddleware(_no_view), ApiAccessMiddleware(_no_view)
_sessions, _login = SessionMiddleware(_no_view), LoginMiddleware(_no_view)


async def refuse_before_body(scope: Any) -> HttpResponse | None:
    """Return a refusal if the sender of this request may not send a body. Otherwise return None."""
    try:
        request = ASGIRequest(scope, BytesIO())
    except UnicodeDecodeError:
        return HttpResponseBadRequest()
    if refusal := _hosts.before(request):
        return refusal
    if is_for_programs(request):
        await atry_token(request)
    if refusal := _api.before(request) or _refuse_other_site(request):
        return refusal
    return None if is_open(request) else await _refuse_without_login(request)


def _refuse_other_site(request: HttpRequest) -> HttpResponse | None:
    """Return a refusal if no password is set and a page of another site caused the request.
    Otherwise return None.

    Without a password, another site could use any browser on this machine. With a password,
    browsers send no session cookie for another site, so the login check refuses such a request.
    """
    if settings.PASSWORD or not is_cross_site(request):
        return None
    return HttpResponseForbidden(
        "A page of another site sent this. Nothing was changed.",
        content_type="text/plain; charset=utf-8",
    )


async def _refuse_without_login(request: HttpRequest) -> HttpResponse | None:
    if settings.SESSION_COOKIE_NAME not in request.COOKIES:
        # A visitor without a session cookie is refused without a query, because a query would
        # occupy a thread that other visitors need.
        return ask_for_login(request)
    try:
        return await in_database(_look_for_login, request)
    except STORAGE_ERRORS as error:
        return response_for_exception(request, error)


def _look_for_login(request: HttpRequest) -> HttpResponse | None:
    _sessions.process_request(request)
    _login.process_request(request)
    return _login.refuse(request)
