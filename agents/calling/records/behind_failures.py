"""Says what the engine's check said of an answer that could not be used. Pages show it on request,
beside a message in words of ours."""

from agents.calling.objects import NotInForm
from agents.models import Job


def what_the_check_said(job: Job | None) -> str:
    """Return why the model's answer was refused, or "" if the job failed for another reason."""
    if job is None or job.failure != NotInForm.__name__:
        return ""
    errors = job.llm_artifacts.order_by("-created_at").values_list("error", flat=True)
    return errors.first() or ""
