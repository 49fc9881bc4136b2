"""Says what stood behind the failure of a job or an attempt. Pages show it on request, beside a
message in words of ours."""

from agents.calling.objects import NotInForm
from agents.models import Job
from agents.providers.exceptions import said_beside
from sessions.models import Attempt


def what_the_check_said(job: Job | None) -> str:
    """Return why the model's answer was refused, or "" if the job failed for another reason."""
    if job is None or job.failure != NotInForm.__name__:
        return ""
    return _error_of_latest_call(job)


def what_the_server_said(failed: Job | Attempt | None) -> str:
    """Return what the server or the model itself said of the failure of a job or an attempt, or ""
    if it said nothing."""
    if failed is None or not failed.error:
        return ""
    return said_beside(failed.error, _error_of_latest_call(failed))


def _error_of_latest_call(failed: Job | Attempt) -> str:
    errors = failed.llm_artifacts.order_by("-created_at").values_list("error", flat=True)
    return errors.first() or ""
