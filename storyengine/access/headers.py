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
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Permissions-Policy": PERMISSIONS_POLICY,
    # A shared cache on the way must not keep a story; the browser asks again each time.
    "Cache-Control": "private, no-cache",
    # Django's middleware says these of pages, but not of what is refused before it.
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class PolicyHeadersMiddleware(InlineMiddleware):
    def after(self, response: HttpResponseBase) -> HttpResponseBase:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response
