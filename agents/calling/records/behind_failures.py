"""Finds the reason that the engine's check gave for refusing an answer. Pages show these words on
request, beside the program's own message."""

from agents.calling.objects import NotInForm
from agents.models import Job


def what_the_check_said(job: Job | None) -> str:
    """Return why the model's answer was refused, or "" if the job failed for another reason."""
    if job is None or job.failure != NotInForm.__name__:
        return ""
    errors = job.llm_artifacts.order_by("-created_at").values_list("error", flat=True)
    return errors.first() or ""
