"""What every answer tells the browser about itself."""

from django.http.response import HttpResponseBase

from storyengine.access.inline import InlineMiddleware

# Nothing inline and nothing from elsewhere: text of a user or a model that slipped through the
# escaping still could not run.
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


class PolicyHeadersMiddleware(InlineMiddleware):
    def after(self, response: HttpResponseBase) -> HttpResponseBase:
        response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
        # A shared cache on the way must not keep a story; the browser asks again each time.
        response.headers.setdefault("Cache-Control", "private, no-cache")
        return response
