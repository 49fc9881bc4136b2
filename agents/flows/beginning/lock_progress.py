"""Says how far agent 0 is with a lock: the tokens so far, the tokens to expect, and the fields that
have arrived."""

import uuid
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

from agents.calling.model_access import model_of
from agents.models import Job, LLMArtifact
from agents.prompting.agent import in_chapter
from agents.prompting.declarations import WORLD_SUMMARY
from agents.prompting.forms.object_forms import read_unfinished
from agents.prompting.forms.schemas import WorldChapterLock
from agents.prompting.layers import weigh
from memory.telling.rendering import Section, readable_lock

# The weights that a lock is expected to have until this installation has written some locks. A
# small model is bound to short texts and lists.
_USUAL_WEIGHT, _USUAL_WEIGHT_OF_SMALL_MODEL = 3_200.0, 2_400.0
# The median is taken of this many earlier locks.
_EARLIER_LOCKS = 5
# A screen reader announces the progress in this many steps.
_STEPS = 4


@dataclass(frozen=True)
class LockProgress:
    """The progress of a lock. The numbers of tokens are estimates, because servers report tokens
    only at the end."""

    tokens: int
    expected: int
    sections: list[Section]

    @property
    def percent(self) -> int:
        """The part of the lock that is written. It is always below 100, because the end is not
        known."""
        return min(99, 100 * self.tokens // self.expected)

    @property
    def step(self) -> int:
        """The number of quarters that are written. A page tells a screen reader only of these."""
        return self.percent * _STEPS // 100


def read_lock_progress(job: Job) -> LockProgress | None:
    """Return the progress of this lock, or None while no model writes it.

    If a try broke off, the job keeps its text, but the text does not count as progress.
    """
    text = job.partial_text
    if job.status != Job.Status.RUNNING or not text.strip():
        return None
    agent = in_chapter(WORLD_SUMMARY, job.session)
    model = model_of(agent)
    per_token = model.weight_per_token
    weight = _expected_weight(job.pk, model.name, model.is_small)
    expected = _two_figures(weight / per_token)
    payload = read_unfinished(text, WorldChapterLock)
    return LockProgress(round(weigh(text) / per_token), expected, readable_lock(payload))


def _two_figures(number: float) -> int:
    """Return the number rounded to two figures, because the estimate is not more exact."""
    whole = max(1, round(number))
    return round(whole, 2 - len(str(whole)))


@lru_cache(maxsize=64)
def _expected_weight(job_id: uuid.UUID, model: str, is_small: bool) -> float:
    """Return the approximate weight that the lock of this job will have. The weight is worked out
    once for each job, because pages ask for it every two seconds."""
    written = LLMArtifact.objects.filter(agent=WORLD_SUMMARY.name, model=model, error="")
    texts = written.order_by("-created_at").values_list("raw_output_ref", flat=True)
    earlier = [weigh(text) for text in texts[:_EARLIER_LOCKS] if text]
    if earlier:
        return median(earlier)
    return _USUAL_WEIGHT_OF_SMALL_MODEL if is_small else _USUAL_WEIGHT
