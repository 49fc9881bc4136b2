from datetime import timedelta

from django.utils import timezone

from agents.models import Job
from memory.models import MemoryBlock
from sessions.models import Session


def expire(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


def make_due(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(run_after=timezone.now())


def chunks_of(chapter: Session) -> list[tuple[int, int]]:
    deltas = chapter.memory_blocks.filter(type=MemoryBlock.Type.TURN_DELTA)
    return list(deltas.values_list("from_prompt_index", "to_prompt_index"))
