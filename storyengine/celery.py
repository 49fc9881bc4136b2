"""The Celery application: a bell for jobs that are rows in the database."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")

app = Celery("storyengine")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
