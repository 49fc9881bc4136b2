"""The ASGI application: Django, with static files served in front of it."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any
from wsgiref.headers import Headers

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")

from django.conf import settings
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application
from django.core.signals import request_started
from django.db import close_old_connections, reset_queries
from servestatic import ServeStaticASGI

from storyengine.access.body_limit import BodyLimit


def with_collected_files(application: Any, folder: Path) -> Any:
    """In front, so that no file passes through the middleware and no page waits for one."""
    return ServeStaticASGI(
        application,
        root=folder,
        prefix=settings.STATIC_URL,
        allow_all_origins=False,
        add_headers_function=_forbid_sniffing,
    )


def _forbid_sniffing(headers: Headers, path: str, url: str) -> None:
    headers["X-Content-Type-Options"] = "nosniff"


# Under ASGI every request has a thread of its own, and with it connections that are new: there is
# nothing old to close. Only to find that out, a reply would wait for a change of thread.
for receiver in (reset_queries, close_old_connections):
    request_started.disconnect(receiver)

application = BodyLimit(
    with_collected_files(get_asgi_application(), settings.STATIC_ROOT)
    if settings.STATIC_IS_COLLECTED
    else ASGIStaticFilesHandler(get_asgi_application())
)

# Otherwise at the first request, in the loop that all other requests wait for.
import_module(settings.ROOT_URLCONF)
