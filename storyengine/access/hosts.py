"""Refuses requests with an unknown Host header."""

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest

from storyengine.access.inline import InlineMiddleware


class KnownHostMiddleware(InlineMiddleware):
    """Refuses an unknown Host on every address, even where no view needs the host.

    Without a password, this alone keeps a foreign web page from reading the stories after making
    its own name resolve to this machine (DNS rebinding).
    """

    def before(self, request: HttpRequest) -> HttpResponse | None:
        try:
            request.get_host()
        except DisallowedHost:
            # Django would log a traceback, and a scan would fill the log with them.
            return HttpResponseBadRequest(
                "Not a host name of this Story Engine; ALLOWED_HOSTS lists those.",
                content_type="text/plain; charset=utf-8",
            )
        return None
