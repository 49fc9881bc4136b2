"""The ASGI application: Django, with static files served in front of it."""

import os
from wsgiref.headers import Headers

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")

from django.conf import settings
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application
from servestatic import ServeStaticASGI


def _forbid_sniffing(headers: Headers, path: str, url: str) -> None:
    headers["X-Content-Type-Options"] = "nosniff"


# In front, so that no file passes through the middleware and no page waits for one.
application = (
    ServeStaticASGI(
        get_asgi_application(),
        root=settings.STATIC_ROOT,
        prefix=settings.STATIC_URL,
        allow_all_origins=False,
        add_headers_function=_forbid_sniffing,
    )
    if settings.STATIC_IS_COLLECTED
    else ASGIStaticFilesHandler(get_asgi_application())
)
