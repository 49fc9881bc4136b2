"""The Django project: the settings, the entry points, the pages and the API."""

from storyengine.operations.celery import app as celery_app

__all__ = ["celery_app"]
