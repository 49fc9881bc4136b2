"""Requires the login if a password is set. Without a password, everybody on this machine may use
the program."""

from collections.abc import Awaitable
from typing import Any, cast

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import resolve_url
from django.utils.functional import SimpleLazyObject
from django.utils.http import urlencode

from storyengine.access.api_access import (
    API_PREFIX,
    Verdict,
    ask_for_token,
    is_readable,
    verdict_on,
)
from storyengine.access.game_master import agame_master, game_master, store_password_once

# Addresses that need no login, because load balancers ask them and have no password.
OPEN_PATHS = ("/healthz", "/readyz")


class LoginMiddleware(AuthenticationMiddleware):
    """A middleware that sets request.user and, if a password is set, requires the login.

    Without a login, a visitor gets only the login page and OPEN_PATHS. Calls of the API pass,
    because storyengine.access.api_access guards the API. A login also opens the READABLE addresses
    of that module.
    """

    def __call__(self, request: HttpRequest) -> Any:
        if self.async_mode:
            return self.__acall__(request)
        self.process_request(request)
        return self.refuse(request) or self.get_response(request)

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        self.process_request(request)
        if not is_open(request):
            await sync_to_async(store_password_once)()
            user = await request.auser()
            if not user.is_authenticated:
                return ask_for_login(request)
            request.user = user
        return await cast(Awaitable[HttpResponseBase], self.get_response(request))

    def refuse(self, request: HttpRequest) -> HttpResponse | None:
        if is_open(request):
            return None
        store_password_once()
        return None if request.user.is_authenticated else ask_for_login(request)

    def process_request(self, request: HttpRequest) -> None:
        """Set request.user to an object that reads the account only when it is used. Most pages
        never use it."""
        if settings.PASSWORD:
            super().process_request(request)
        else:
            request.user = cast(Any, SimpleLazyObject(game_master))
            request.auser = agame_master


def open_paths() -> tuple[str, ...]:
    """Return the addresses that need no login when a password is set."""
    return (*OPEN_PATHS, resolve_url(settings.LOGIN_URL))


def is_open(request: HttpRequest) -> bool:
    path = request.path_info
    if not settings.PASSWORD or path in open_paths():
        return True
    if is_readable(request):
        return verdict_on(request) is Verdict.RIGHT
    return path.startswith(API_PREFIX)


def ask_for_login(request: HttpRequest) -> HttpResponse:
    if is_readable(request):
        return ask_for_token()
    login_url = resolve_url(settings.LOGIN_URL)
    if request.headers.get("HX-Request") == "true":
        # This answer is not a redirect, because htmx would follow a redirect and put the login page
        # into a part of the present page.
        query = urlencode({"next": request.headers.get("HX-Current-URL", "/")})
        return HttpResponse(status=401, headers={"HX-Redirect": f"{login_url}?{query}"})
    if not request.accepts("text/html"):
        return HttpResponse("Log in first.", status=401, content_type="text/plain; charset=utf-8")
    return redirect_to_login(request.get_full_path() if request.method == "GET" else "/")
