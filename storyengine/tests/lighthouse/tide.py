"""The tide, which a job works out beside play as a late result for the turn that asked for it."""

from agents.flows.remembering.late_results import finish_with_result
from agents.models import Job
from agents.running.database import in_database
from agents.running.job_kinds import JobKind, Watch
from agents.running.results import ask_for_result
from sessions.models import Attempt
from storyengine.tests.lighthouse.state import TIDE_CAME

TIDE = "lighthouse.tide"


def ask_for_tide(attempt: Attempt) -> None:
    if attempt.actor is None:
        ask_for_result(attempt, TIDE, TIDE_CAME)


async def _work_out(job: Job, watch: Watch) -> None:
    await in_database(finish_with_result, job, {"level": job.from_prompt_index})


TIDE_JOB = JobKind(run=_work_out)
