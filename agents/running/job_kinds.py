"""The kinds of job, which the flows declare and the runner looks up."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agents.models import Job
from agents.running.watch import Watch


@dataclass(frozen=True)
class JobKind:
    """The function that does a kind of job, and the one that is called after a failure."""

    run: Callable[[Job, Watch], Awaitable[None]]
    give_up: Callable[[Job, Exception], None]


_declared: dict[str, JobKind] = {}


def declare_job_kind(name: str, kind: JobKind) -> bool:
    """Declare a kind while Django loads its app; return False if the name is taken."""
    return _declared.setdefault(name, kind) == kind


def job_kind(name: str) -> JobKind:
    """Return a declared kind. Raises KeyError if no installed app has declared it."""
    return _declared[name]
