"""Gives notice of due jobs to the broker. A notice only wakes a worker up.

If a notice is lost, the sweep gives notice again.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

from agents.models import Job
from sessions.storage import describe

logger = logging.getLogger(__name__)


def give_notice(job: Job, *, delay_seconds: float = 0) -> None:
    """Tell a worker that a job is due, once the transaction is committed."""
    transaction.on_commit(partial(give_notice_now, job, delay_seconds=delay_seconds))


def give_notice_now(job: Job, *, delay_seconds: float = 0) -> bool:
    """Tell the broker that a job is due, and return whether that succeeded."""
    try:
        # The task is called by its name. Its module cannot be imported here, because that module
        # imports every flow, and the flows import this module.
        current_app.send_task(
            "agents.tasks.run_job",
            kwargs={"job_id": str(job.pk)},
            countdown=delay_seconds or None,
            queue=job.queue,
        )
    except (OperationalError, OSError) as error:
        logger.warning(
            "the broker is out of reach; the sweep will find job %s: %s",
            job.pk,
            describe(error),
        )
        return False
    return True


def give_notices_now(jobs: Iterable[Job]) -> bool:
    """Tell the broker that these jobs are due. Return whether all notices succeeded.

    After the first failure no more notices are sent, because a broker that hangs takes seconds for
    each failure.
    """
    return all(give_notice_now(job) for job in jobs)


def count_notices() -> dict[str, int]:
    """Return how many notices of each class wait at the broker. If they cannot be counted, the
    mapping is empty."""
    return _ask_broker(
        lambda channel: {one: channel.queue_declare(one).message_count for one in Job.Queue.values}
    )


def _ask_broker(ask: Callable[[Any], dict[str, int]]) -> dict[str, int]:
    """Return what the broker answers on a channel, or an empty mapping if it is out of reach."""
    with current_app.connection_for_write() as broker:
        lost: tuple[type[BaseException], ...] = (OperationalError, OSError)
        lost += (*broker.connection_errors, *broker.channel_errors)
        try:
            broker.ensure_connection(max_retries=1, interval_start=0)
            return ask(broker.default_channel)
        except lost as error:
            logger.warning("the broker was asked for its queues in vain: %s", describe(error))
            return {}
