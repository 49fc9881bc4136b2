"""Reads by one query whether an open page is out of date.

Open pages ask every two seconds. The other values of a page are read only if the page is out of
date.
"""

import threading
import uuid
from functools import cached_property

from django.db.models import (
    Count,
    F,
    FilteredRelation,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
)
from django.db.models.functions import Coalesce

from memory.blocks.blocks import COUNTS
from memory.models import MemoryBlock, NarrativeDraft
from sessions.chapter.access import get_chapter
from sessions.models import Attempt, Session

_PREFIX = "pending_"
_FIELDS = ("attempt_id", "run_id", "kind", "status", "actor", "lease_until")


def status_with_attempts(session_id: uuid.UUID) -> tuple[Session, Attempt | None, str]:
    """Return the chapter, its pending attempt, and the submission key of its newest attempt."""
    chapter = _get(_prepared.with_attempts, session_id)
    return chapter, _pending_of(chapter), vars(chapter)["newest_key"] or ""


def status_with_memory(session_id: uuid.UUID) -> tuple[Session, Attempt | None, int, int]:
    """Return the chapter, its pending attempt, and the numbers of its memory blocks and drafts."""
    chapter = _get(_prepared.with_memory, session_id)
    found = vars(chapter)
    return chapter, _pending_of(chapter), found["block_count"], found["draft_count"]


class _Prepared(threading.local):
    """The queries of this module. Each thread builds them only once, because building a query takes
    as long as running it.

    Threads cannot share a query, because running a query changes parts of it.
    """

    @cached_property
    def with_attempts(self) -> "QuerySet[Session]":
        newest = Attempt.objects.filter(session=OuterRef("pk"), kind__in=Attempt.IN_PLAY)
        newest = newest.order_by("-submitted_at")
        key = Subquery(newest.values("submission_key")[:1])
        return _with_pending_attempt().annotate(newest_key=key)

    @cached_property
    def with_memory(self) -> "QuerySet[Session]":
        return _with_pending_attempt().annotate(
            block_count=_count(MemoryBlock.objects.filter(COUNTS, session=OuterRef("pk"))),
            draft_count=_count(NarrativeDraft.objects.filter(session=OuterRef("pk"))),
        )


_prepared = _Prepared()


def _with_pending_attempt() -> "QuerySet[Session]":
    """Return a query of chapters that also reads the pending attempt. A chapter has at most one
    pending attempt, so the join returns no chapter twice."""
    pending = FilteredRelation(
        "attempts",
        condition=Q(attempts__status__in=Attempt.PENDING, attempts__kind__in=Attempt.IN_PLAY),
    )
    columns = {_PREFIX + name: F(f"pending__{name}") for name in _FIELDS}
    return Session.objects.annotate(pending=pending, **columns)


def _pending_of(chapter: Session) -> Attempt | None:
    found = {name: vars(chapter)[_PREFIX + name] for name in _FIELDS}
    return Attempt(session_id=chapter.pk, **found) if found["attempt_id"] else None


def _count(rows: "QuerySet[MemoryBlock] | QuerySet[NarrativeDraft]") -> Coalesce:
    grouped = rows.order_by().values("session").annotate(count=Count("*")).values("count")
    return Coalesce(Subquery(grouped, output_field=IntegerField()), 0)


def _get(chapters: "QuerySet[Session]", session_id: uuid.UUID) -> Session:
    found = next(iter(chapters.filter(pk=session_id).order_by()), None)
    return found or get_chapter(session_id)
