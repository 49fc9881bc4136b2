"""The middleware that only computes. It runs in the event loop and needs no thread.

By default Django would run the methods of its own middleware in threads, with ten changes of thread
in a request. These changes would delay the streams of replies. Only the storing of a changed
session still runs in a thread.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, cast
from urllib.parse import urlsplit

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.contrib.messages import middleware as messages
from django.contrib.sessions import middleware as sessions
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.http.response import HttpResponseBase
from django.middleware import clickjacking, csrf, security
from django.utils.cache import patch_vary_headers
from django.utils.deprecation import MiddlewareMixin
from django.utils.text import compress_string

GetResponse = Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]

# This policy forbids inline scripts and everything from other sites. So text of a user or a model
# cannot run as code, even if a template forgets to escape it.
CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
PERMISSIONS_POLICY = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Permissions-Policy": PERMISSIONS_POLICY,
    # No shared cache may keep a page, because pages show stories. The browser has to ask the server
    # before it shows a cached page.
    "Cache-Control": "private, no-cache",
    # Django's middleware sets these headers too. They are also here for requests that are refused
    # before Django's middleware runs.
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
# A smaller page would fit into the same packet uncompressed.
SMALLEST = 1_000
# Pages up to this size are compressed in the event loop, which takes a millisecond at most. Larger
# ones are compressed in a thread, so that they delay no stream.
LARGEST_INLINE = 40_000
# The length of each page is changed at random by up to this number of bytes.
PADDING = 100
_ACCEPTS_GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))")
# The accepted values of the header Sec-Fetch-Site. Any other value means that a page of another
# site may have caused the request.
OWN_FETCH_SITES = ("same-origin", "none")


class InlineMiddleware:
    """The base class of a middleware that calls `before` and `after`. Subclasses override these
    methods, which must not wait for anything."""

    sync_capable: ClassVar[bool] = True
    async_capable: ClassVar[bool] = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self.is_async:
            return self._answer(request)
        response = self.before(request) or cast(HttpResponseBase, self.get_response(request))
        return self.after(response)

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        response = self.before(request)
        if response is None:
            response = await cast(Awaitable[HttpResponseBase], self.get_response(request))
        return self.after(response)

    def before(self, request: HttpRequest) -> HttpResponseBase | None:
        """Return a response that refuses the request, or None if the request is not refused."""
        return None

    def after(self, response: HttpResponseBase) -> HttpResponseBase:
        return response


class PolicyHeadersMiddleware(InlineMiddleware):
    def after(self, response: HttpResponseBase) -> HttpResponseBase:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response


class KnownHostMiddleware(InlineMiddleware):
    """A middleware that refuses every request with an unknown Host, even if no view would read the
    Host.

    Without a password, only this check keeps web pages of other sites from reading the stories.
    Such a page could make its own name resolve to this machine (DNS rebinding).
    """

    def before(self, request: HttpRequest) -> HttpResponse | None:
        try:
            request.get_host()
        except DisallowedHost:
            # The answer is made here. If this middleware raised an exception, Django would log a
            # traceback for each refused request, and a scan would fill the log.
            return HttpResponseBadRequest(
                "Not a host name of this Story Engine; ALLOWED_HOSTS lists those.",
                content_type="text/plain; charset=utf-8",
            )
        return None


class CompressionMiddleware(InlineMiddleware):
    """A middleware that compresses pages with gzip.

    The length of a compressed page tells how much of its text repeats. An attacker who makes a
    browser ask for a page again and again, each time with another guess in the address, could learn
    a secret of the page from the lengths (BREACH). Therefore no answer to a request of another site
    is compressed, the length of every answer is changed at random, and Django masks the CSRF token
    anew for each page.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self.is_async:
            return self._answer(request)
        response = cast(HttpResponseBase, self.get_response(request))
        if isinstance(response, HttpResponse) and _is_to_be_compressed(request, response):
            _compress(response)
        return response

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        response = await cast(Awaitable[HttpResponseBase], self.get_response(request))
        if isinstance(response, HttpResponse) and _is_to_be_compressed(request, response):
            if len(response.content) > LARGEST_INLINE:
                await asyncio.to_thread(_compress, response)
            else:
                _compress(response)
        return response


def _is_to_be_compressed(request: HttpRequest, response: HttpResponse) -> bool:
    """Return whether this answer is compressed. If the answer depends on what the browser accepts,
    its header Vary says so."""
    is_text = response.headers.get("Content-Type", "").startswith("text/")
    if not is_text or len(response.content) < SMALLEST or "Content-Encoding" in response.headers:
        return False
    patch_vary_headers(response, ("Accept-Encoding", "Sec-Fetch-Site"))
    accepts = _ACCEPTS_GZIP.search(request.headers.get("Accept-Encoding", ""))
    return bool(accepts) and not is_cross_site(request)


def _compress(response: HttpResponse) -> None:
    response.content = compress_string(response.content, max_random_bytes=PADDING)
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Content-Length"] = str(len(response.content))


def is_cross_site(request: HttpRequest) -> bool:
    """Return whether the browser's headers say that a page of another site caused the request."""
    fetch_site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    is_own = fetch_site is None or fetch_site in OWN_FETCH_SITES
    return not (is_own and (origin is None or _is_own_origin(origin, request)))


def _is_own_origin(origin: str, request: HttpRequest) -> bool:
    return urlsplit(origin)[:2] == (request.scheme, request.get_host())


class RunInline(MiddlewareMixin):
    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        steps = cast(Any, self)
        response = steps.process_request(request) if hasattr(self, "process_request") else None
        if response is None:
            response = await cast(Awaitable[HttpResponseBase], self.get_response(request))
        return await self.finish(request, response)

    async def finish(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        return cast(HttpResponseBase, cast(Any, self).process_response(request, response))


class SecurityMiddleware(RunInline, security.SecurityMiddleware):
    pass


class XFrameOptionsMiddleware(RunInline, clickjacking.XFrameOptionsMiddleware):
    pass


class MessageMiddleware(RunInline, messages.MessageMiddleware):
    """Django's middleware for messages, in the event loop. Its MESSAGE_STORAGE reads no
    database."""


class SessionMiddleware(RunInline, sessions.SessionMiddleware):
    async def finish(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        process: Callable[[HttpRequest, Any], Any] = self.process_response
        if request.session.modified:
            return cast(HttpResponseBase, await sync_to_async(process)(request, response))
        return cast(HttpResponseBase, process(request, response))


class CsrfViewMiddleware(RunInline, csrf.CsrfViewMiddleware):
    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)
        if self.async_mode:
            # Django runs this method in a thread unless the attribute `process_view` of the
            # instance is an async function.
            self.process_view = self._process_view_inline  # type: ignore[assignment]

    async def _process_view_inline(self, *args: Any) -> Any:
        return super().process_view(*args)
