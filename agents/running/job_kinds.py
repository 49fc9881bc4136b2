"""The kinds of job: each flow declares its own, and the runner works on whatever was declared."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agents.models import Job
from agents.running.watch import Watch


@dataclass(frozen=True)
class JobKind:
    """How one kind of job is done, and what is to be done when it failed."""

    run: Callable[[Job, Watch], Awaitable[None]]
    give_up: Callable[[Job, Exception], None]


_declared: dict[str, JobKind] = {}


def declare_job_kind(name: str, kind: JobKind) -> bool:
    """Called while Django loads the app that the kind belongs to; False where another has the
    name."""
    return _declared.setdefault(name, kind) == kind


def job_kind(name: str) -> JobKind:
    """Raises KeyError for a kind that no installed app has declared."""
    return _declared[name]
