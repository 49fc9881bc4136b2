"""The kinds of job. The flows declare them, and the worker finds them here by name."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agents.models import Job
from agents.running.watch import Watch
from sessions.exceptions import WrongState


@dataclass(frozen=True)
class JobKind:
    """A kind of job. `run` does the work of a job, and `give_up` settles a failure. Without
    `give_up` the job fails.

    `queue` is the usual class of its jobs. The code that queues a job can name another class, for
    example because a person waits for the job.
    """

    run: Callable[[Job, Watch], Awaitable[None]]
    give_up: Callable[[Job, Exception], None] | None = None
    queue: str = Job.Queue.MEMORY


_declared: dict[str, JobKind] = {}


def declare_job_kind(name: str, kind: JobKind) -> None:
    """Declare a kind of job while Django loads its app. The first declaration of a name holds."""
    _declared.setdefault(name, kind)


def job_kind(name: str) -> JobKind:
    """Return the kind with this name. If no app declares it, return a kind whose jobs fail."""
    return _declared.get(name, _UNKNOWN)


async def _refuse(job: Job, _watch: Watch) -> None:
    raise WrongState(
        f'No installed way to play does work of the kind "{job.kind}". Nothing was changed; add '
        "the way to play to MODES in the settings again to go on."
    )


_UNKNOWN = JobKind(run=_refuse)
