"""Celery's side of the work: each task is a notice that came."""

import uuid

from celery import shared_task
from celery.signals import worker_shutting_down
from django.db import Error as DatabaseError

from agents.calling.asking import ask_server
from agents.running.work import STOPPING, work_on


@shared_task(
    # Whoever could not claim the job has not begun it.
    autoretry_for=(DatabaseError,),
    max_retries=5,
    retry_backoff=1,
    retry_backoff_max=30,
    retry_jitter=True,
)
def run_job(*, job_id: str) -> None:
    """Work on a job, if it is still due; its prompts need to know what the models take."""
    try:
        _ask_unless_stopping()
    finally:
        # Whatever an optional question meets.
        work_on(uuid.UUID(job_id))
    # Some servers load a model for its first call, and know only then how much it gets.
    _ask_unless_stopping()


def _ask_unless_stopping() -> None:
    if not STOPPING.is_set():
        ask_server()


@worker_shutting_down.connect
def stop_working(**_signal: object) -> None:
    """Have running jobs given back: Celery would wait for their end, and be killed meanwhile."""
    STOPPING.set()
