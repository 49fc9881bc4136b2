"""Removes jobs that have ended long ago and that nothing refers to."""

import uuid
from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from agents.models import Job, LLMArtifact
from memory.models import NarrativeDraft

KEPT_AFTER_END = timedelta(days=30)
# The number of jobs that one sweep looks at. The next sweep of the process begins behind the last
# of these jobs. So a sweep costs the same however many jobs there are.
LOOKED_AT = 500
_BEFORE_ALL = uuid.UUID(int=0)
_looked_until = _BEFORE_ALL


def remove_old_jobs() -> int:
    """Look at the next LOOKED_AT jobs, and remove the jobs that ended long ago and that nothing
    refers to. Return the number of removed jobs."""
    global _looked_until
    after = Job.objects.filter(pk__gt=_looked_until).order_by("pk")
    keys = list(after.values_list("pk", flat=True)[:LOOKED_AT])
    _looked_until = keys[-1] if len(keys) == LOOKED_AT else _BEFORE_ALL
    old = _removable().filter(pk__in=keys)
    # The jobs are looked for first, because even a deletion that finds nothing makes other writers
    # wait.
    if not old.exists():
        return 0
    with transaction.atomic():
        # The rows are locked, because a job may be queued again at this moment.
        locked = list(old.select_for_update(of=("self",)).values_list("pk", flat=True))
        Job.objects.filter(pk__in=locked).delete()
    return len(locked)


def _removable() -> "QuerySet[Job]":
    """Return the jobs that can be removed.

    A job is kept if it has a call or a draft, or if it has a late result, because a run may still
    take the result and an export has it. The newest job of each kind in a chapter is kept, because
    pages show it, and so is a failed summary, because it may be tried again.
    """
    newer = Job.objects.filter(
        session=OuterRef("session"), kind=OuterRef("kind"), created_at__gt=OuterRef("created_at")
    )
    drafts = NarrativeDraft.objects.filter(session=OuterRef("session"), job_id=OuterRef("pk"))
    has_ended = Q(status__in=(Job.Status.DONE, Job.Status.CANCELLED)) | (
        Q(status=Job.Status.FAILED) & ~Q(kind=Job.Kind.SUMMARIZE)
    )
    return Job.objects.filter(
        has_ended,
        ~Exists(LLMArtifact.objects.filter(job=OuterRef("pk"))),
        ~Exists(drafts),
        Exists(newer),
        result_kind="",
        updated_at__lt=timezone.now() - KEPT_AFTER_END,
    ).order_by()
