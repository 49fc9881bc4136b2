"""The Django project: its settings, its entry points, and the pages and the API that use the
apps."""

from storyengine.celery import app as celery_app

__all__ = ["celery_app"]
