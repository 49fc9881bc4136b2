"""Stores finished late results as rows, without a worker."""

from agents.models import Job
from sessions.models import Attempt


def store_finished_result(asker: Attempt, number: int, name: str = "done") -> Job:
    """Store a finished late result that the attempt at turn `number` asked for.

    It becomes a change of the kind "note". Each result of a test has a name of its own.
    """
    return Job.objects.create(
        session_id=asker.session_id,
        kind="simulate",
        key=name,
        status=Job.Status.DONE,
        attempt=asker,
        to_prompt_index=number,
        result_kind="note",
        result={"name": name},
    )
