"""Refuses requests with an unknown Host header."""

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest

from storyengine.access.inline import InlineMiddleware


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
