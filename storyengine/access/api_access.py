"""Decides who may call the API: programs with its token, or any program on this machine."""

from collections.abc import Awaitable
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase

from storyengine.access.inline import InlineMiddleware
from storyengine.access.problem import problem
from storyengine.access.tokens import Verdict, atry_token, try_token, verdict_on

API_PREFIX = "/api/"
# Addresses whose answers have no text of a story. A program with the token may read these
# addresses, and so may a browser with a login.
READABLE = ("/api/docs", "/api/openapi.json", "/metrics")
# The accepted values of the header Sec-Fetch-Site. Any other value means that a page of another
# site may have caused the request.
OWN_FETCH_SITES = ("same-origin", "none")


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


def is_cross_site(request: HttpRequest) -> bool:
    """Return whether the browser's headers say that a page of another site caused the request."""
    fetch_site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    is_own = fetch_site is None or fetch_site in OWN_FETCH_SITES
    return not (is_own and (origin is None or _is_own_origin(origin, request)))


def _is_own_origin(origin: str, request: HttpRequest) -> bool:
    return urlsplit(origin)[:2] == (request.scheme, request.get_host())


def _refuse_body_that_is_not_json(request: HttpRequest) -> JsonResponse | None:
    has_body = (
        request.META.get("CONTENT_LENGTH") not in (None, "", "0")
        or "Transfer-Encoding" in request.headers
    )
    if not has_body or request.content_type == "application/json":
        return None
    return problem(415, "Not JSON", "Send the body as application/json.")
