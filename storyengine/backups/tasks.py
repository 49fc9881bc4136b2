"""The daily backup of SQLite, which the workers make."""

import logging

from celery import shared_task
from celery.signals import worker_ready
from django.db import connection

from storyengine.backups.taking import back_up_if_due
from storyengine.stack.backup_errors import BackupError

logger = logging.getLogger(__name__)


@shared_task
def back_up_daily() -> None:
    """Back up SQLite if the daily backup is due. For PostgreSQL, a service of compose.yaml makes
    the backups."""
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
    """Start the task of the daily backup when a worker starts. On a laptop, a worker may end before
    the task's regular time."""
    back_up_daily.delay()
