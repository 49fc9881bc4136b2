"""The Django project, with settings, entry points, and the pages and API that use the apps."""

from storyengine.celery import app as celery_app

__all__ = ["celery_app"]
