"""The project: settings, entry points, and the pages and API that compose the apps."""

from storyengine.celery import app as celery_app

__all__ = ["celery_app"]
