"""Celery's side of the work: each task is a bell that was rung."""

import uuid

from celery import shared_task

from agents.recovery import recover, ring_due_jobs
from agents.work import work_on


@shared_task
def run_job(*, job_id: str) -> None:
    """Work on a job, if it is still due."""
    work_on(uuid.UUID(job_id))


@shared_task
def sweep() -> None:
    """Find what a dead process left behind and what the bell missed."""
    recover()
    ring_due_jobs()
