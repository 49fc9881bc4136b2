"""The ASGI application: Django, with static files served in front of it."""

import os

from django.conf import settings
from django.core.asgi import get_asgi_application
from servestatic import ServeStaticASGI

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")

# In front, so that no file passes through the middleware and no page waits for one.
application = ServeStaticASGI(
    get_asgi_application(), root=settings.STATIC_ROOT, prefix=settings.STATIC_URL
)
