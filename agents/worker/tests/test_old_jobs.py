import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents.models import Job, LLMArtifact
from agents.worker import old_jobs
from agents.worker.old_jobs import KEPT_AFTER_END, remove_old_jobs
from agents.worker.sweeping import sweep
from memory.models import NarrativeDraft
from sessions.models import Session
from sessions.tests.factories import make_active_chapter

pytestmark = [pytest.mark.django_db, pytest.mark.servers]

Kind, Status = Job.Kind, Job.Status


@pytest.fixture(autouse=True)
def _from_the_first_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_jobs, "_looked_until", uuid.UUID(int=0))


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def ended(chapter: Session, kind: str = Kind.GO_ON, *, days_ago: float = 31, **fields: Any) -> Job:
    at = timezone.now() - timedelta(days=days_ago)
    values = {"status": Status.DONE, **fields}
    return Job.objects.create(
        session=chapter, kind=kind, key=uuid.uuid4().hex, created_at=at, updated_at=at, **values
    )


def left() -> set[uuid.UUID]:
    return set(Job.objects.values_list("pk", flat=True))


def test_old_jobs_go_in_the_sweep_and_the_newest_of_a_kind_stays(chapter: Session) -> None:
    for days in (40, 50, 60):
        ended(chapter, days_ago=days)
    for status in (Status.CANCELLED, Status.FAILED):
        ended(chapter, Kind.NARRATE, days_ago=90, status=status)
    newest = ended(chapter)
    narration = ended(chapter, Kind.NARRATE, status=Status.FAILED)
    other = ended(make_active_chapter(), days_ago=400)
    sweep()
    assert left() == {newest.pk, narration.pk, other.pk}


def test_a_job_to_which_something_refers_stays(chapter: Session) -> None:
    with_call = ended(chapter, days_ago=60)
    LLMArtifact.objects.create(session=chapter, agent="memory", model="m", job=with_call)
    told = ended(chapter, days_ago=60)
    NarrativeDraft.objects.create(
        session=chapter, job_id=told.pk, target_words=9, source_snapshot={}, chapter_text="Told."
    )
    late = ended(chapter, days_ago=60, result_kind="mode.result", result={})
    void = ended(chapter, days_ago=60, result_kind="mode.result", status=Status.VOID)
    newest = ended(chapter, days_ago=31)
    assert remove_old_jobs() == 0
    assert left() == {with_call.pk, told.pk, late.pk, void.pk, newest.pk}


def test_what_may_go_on_stays(chapter: Session) -> None:
    kept = [
        ended(chapter, Kind.SUMMARIZE, days_ago=60, status=Status.FAILED),
        ended(chapter, days_ago=60, status=Status.QUEUED),
        ended(chapter, days_ago=60, status=Status.RUNNING),
        ended(chapter, days_ago=KEPT_AFTER_END.days - 1),
        ended(chapter, days_ago=1),
        ended(chapter, Kind.SUMMARIZE, days_ago=1),
    ]
    assert remove_old_jobs() == 0
    assert left() == {job.pk for job in kept}
