"""The Celery tasks. A task is called when a notice arrives."""

import uuid

from celery import shared_task
from celery.signals import worker_shutting_down
from django.db import Error as DatabaseError

from agents.calling.asking_windows import ask_servers
from agents.running.work import STOPPING, work_on, work_on_next


@shared_task(
    # The name of the task in notices. The name does not depend on the task's module.
    name="agents.tasks.run_job",
    # The task may be repeated after this error, which means that the job was not claimed.
    autoretry_for=(DatabaseError,),
    max_retries=5,
    retry_backoff=1,
    retry_backoff_max=30,
    retry_jitter=True,
)
def run_job(*, job_id: str) -> None:
    """Do a job if it is still due, and then the next due jobs until there is none. Before and after
    each job, ask the server for its models' windows."""
    try:
        _ask_unless_stopping()
    finally:
        # The job is done even if the request to the server fails.
        is_done = work_on(uuid.UUID(job_id)) or work_on_next()
    while is_done:
        # Some servers load a model at its first call, and know the window of the model only then.
        _ask_unless_stopping()
        is_done = work_on_next()


def _ask_unless_stopping() -> None:
    if not STOPPING.is_set():
        ask_servers()


@worker_shutting_down.connect
def stop_working(**_signal: object) -> None:
    """Tell running jobs that they have to be given back. Otherwise Celery would wait until the jobs
    end, and might be killed while it waits."""
    STOPPING.set()
