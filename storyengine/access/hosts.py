"""Which Host headers are answered."""

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest

from storyengine.access.inline import InlineMiddleware


class KnownHostMiddleware(InlineMiddleware):
    """A foreign Host is refused on every address, also where nothing asks for the host.

    Without a password this is what keeps a web page elsewhere, whose name was made to resolve to
    this machine, from reading the stories.
    """

    def before(self, request: HttpRequest) -> HttpResponse | None:
        try:
            request.get_host()
        except DisallowedHost:
            # Answered here, because a scan would fill the log with tracebacks.
            return HttpResponseBadRequest(
                "Not a host name of this Story Engine; ALLOWED_HOSTS lists those.",
                content_type="text/plain; charset=utf-8",
            )
        return None
