"""Refuses requests with an unknown Host header."""

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest

from storyengine.access.inline import InlineMiddleware


class KnownHostMiddleware(InlineMiddleware):
    """A middleware that refuses requests with an unknown Host at every address, even where no view
    reads the Host.

    Without a password, only this check keeps web pages of other sites from reading the stories.
    Such a page could make its own name resolve to this machine (DNS rebinding).
    """

    def before(self, request: HttpRequest) -> HttpResponse | None:
        try:
            request.get_host()
        except DisallowedHost:
            # The answer is made here, because Django would answer an exception with a traceback in
            # the log. A scan would then fill the log.
            return HttpResponseBadRequest(
                "Not a host name of this Story Engine; ALLOWED_HOSTS lists those.",
                content_type="text/plain; charset=utf-8",
            )
        return None
