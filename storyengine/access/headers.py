"""The security headers of every answer."""

from django.http.response import HttpResponseBase

from storyengine.access.inline import InlineMiddleware

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


class PolicyHeadersMiddleware(InlineMiddleware):
    def after(self, response: HttpResponseBase) -> HttpResponseBase:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response
