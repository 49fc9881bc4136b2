"""The ASGI application: Django, with a server for static files in front of it."""

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
    """Return an application that serves static files by itself and passes all other requests to
    `application`.

    Static files then need no middleware of Django, and delay no page.
    """
    return ServeStaticASGI(
        application,
        root=folder,
        prefix=settings.STATIC_URL,
        allow_all_origins=False,
        add_headers_function=_forbid_sniffing,
    )


def _forbid_sniffing(headers: Headers, path: str, url: str) -> None:
    headers["X-Content-Type-Options"] = "nosniff"


# Django calls these receivers when a request begins, to reset and close database connections. They
# have nothing to do under ASGI, where each request has a new thread and new connections. They would
# only delay each reply by a change of thread.
for receiver in (reset_queries, close_old_connections):
    request_started.disconnect(receiver)

application = BodyLimit(
    with_collected_files(get_asgi_application(), settings.STATIC_ROOT)
    if settings.STATIC_IS_COLLECTED
    else ASGIStaticFilesHandler(get_asgi_application())
)

# The URLs are imported when the process starts. Otherwise the first request would import them and
# block the event loop for all others.
import_module(settings.ROOT_URLCONF)
