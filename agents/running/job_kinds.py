"""The kinds of job, and what a page shows of a running job. The flows declare the kinds, and the
worker finds them here by name."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from agents.models import Job
from sessions.exceptions import WrongState
from sessions.language.text import with_replacements
from sessions.language.words import count_words


@dataclass
class Watch:
    """The text and the plan of a running job. The job's flow sets both, and each renewal of the
    lease stores them.

    `plan` has the numbers that a narration knows in advance: "target_words", "scene" and "scenes".
    """

    parts: list[str] = field(default_factory=list)
    plan: dict[str, int] = field(default_factory=dict)

    def add(self, text: str) -> None:
        """Add a piece of text. The pieces are kept in a list and not joined here, because this
        method is called very often."""
        self.parts.append(text)

    def show(self, text: str) -> None:
        """Replace the text so far with this text."""
        self.parts = [text]

    @property
    def text(self) -> str:
        return with_replacements("".join(self.parts))

    @property
    def progress(self) -> dict[str, int]:
        return {**self.plan, "words": count_words(self.text)}


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
