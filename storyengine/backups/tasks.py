"""The daily backup of SQLite by the workers."""

import logging

from celery import shared_task
from celery.signals import worker_ready
from django.db import connection

from storyengine.backups.exceptions import BackupError
from storyengine.backups.taking import back_up_if_due

logger = logging.getLogger(__name__)


@shared_task
def back_up_daily() -> None:
    """Back up SQLite if the last backup is a day old. PostgreSQL has a service of its own for
    this."""
    if connection.vendor != "sqlite":
        return
    try:
        path = back_up_if_due()
    except BackupError as error:
        logger.error("there is no backup of today: %s", error)
    else:
        if path:
            logger.info("the daily backup is %s", path.name)


@worker_ready.connect
def back_up_at_the_start(**_signal: object) -> None:
    """Check at the start whether the daily backup is due, because the worker of a laptop may end
    before the first regular check."""
    back_up_daily.delay()
