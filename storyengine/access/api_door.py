"""Who may call the API: the bearer of the token, or a program on this machine."""

from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.utils.crypto import constant_time_compare

from storyengine.access.inline import InlineMiddleware
from storyengine.access.problem import problem

API_PREFIX = "/api/"
# What holds no story and is for programs and people: a browser that is logged in may read it too.
READABLE = ("/api/docs", "/api/openapi.json", "/metrics")
# What a browser says of requests that a page of another site did not cause.
OWN_FETCH_SITES = ("same-origin", "none")


class ApiDoorMiddleware(InlineMiddleware):
    """No cookie opens the API, which is why it needs no CSRF token; what is READABLE, which only
    answers GET, is left to storyengine.access.door.

    Without a password anything on this machine may call it; a browser is such a program too, so
    what a page of another site can make it send is refused.
    """

    def before(self, request: HttpRequest) -> JsonResponse | None:
        if not request.path_info.startswith(API_PREFIX):
            return None
        if not settings.PASSWORD:
            refusal = _refuse_cross_site(request)
        elif has_token(request) or is_readable(request):
            refusal = None
        else:
            refusal = refuse_stranger()
        return refusal or _refuse_body_that_is_not_json(request)


def has_token(request: HttpRequest) -> bool:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return (
        bool(settings.API_TOKEN)
        and scheme.lower() == "bearer"
        and constant_time_compare(token.strip(), settings.API_TOKEN)
    )


def is_readable(request: HttpRequest) -> bool:
    return request.method in ("GET", "HEAD") and request.path_info in READABLE


def refuse_stranger() -> JsonResponse:
    if not settings.API_TOKEN:
        return _unauthorized("Set STORYENGINE_API_TOKEN and restart; until then the API is closed.")
    return _unauthorized("Send the header 'Authorization: Bearer' with STORYENGINE_API_TOKEN.")


def _unauthorized(detail: str) -> JsonResponse:
    response = problem(401, "The API asks for its token", detail)
    response.headers["WWW-Authenticate"] = 'Bearer realm="Story Engine"'
    return response


def _refuse_cross_site(request: HttpRequest) -> JsonResponse | None:
    fetch_site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    is_own = fetch_site is None or fetch_site in OWN_FETCH_SITES
    if is_own and (origin is None or _is_own_origin(origin, request)):
        return None
    return problem(
        403, "Cross-site request", "The API answers programs and its own pages, not other sites."
    )


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
