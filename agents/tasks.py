"""Celery's side of the work: each task is a bell that was rung."""

import uuid

from celery import shared_task
from celery.signals import worker_ready, worker_shutting_down

from agents.recovery import recover, ring_due_jobs
from agents.work import STOPPING, work_on


@shared_task
def run_job(*, job_id: str) -> None:
    """Work on a job, if it is still due."""
    work_on(uuid.UUID(job_id))


@shared_task
def sweep() -> None:
    """Find what a dead process left behind and what the bell missed."""
    recover()
    ring_due_jobs()


@worker_ready.connect
def resume(**_signal: object) -> None:
    """Go on at once with what the last worker gave back, instead of at the first regular sweep."""
    sweep.delay()


@worker_shutting_down.connect
def stop_working(**_signal: object) -> None:
    """Have running jobs given back: Celery would wait for their end, and be killed meanwhile."""
    STOPPING.set()
