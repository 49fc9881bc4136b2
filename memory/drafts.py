"""Reads and adds narrative drafts. Each build adds a draft, and no draft is changed."""

import uuid

from django.db.models import BooleanField, ExpressionWrapper, QuerySet

from memory.blocks import COUNTS
from memory.models import NarrativeDraft
from sessions.models import Attempt, Session


def drafts_of(chapter: Session) -> QuerySet[NarrativeDraft]:
    """Return the chapter's drafts, oldest first, each with the field `is_current`.

    A draft is current while the last attempt that it tells is chosen. A draft whose last attempt
    was not recorded counts as current.
    """
    drafts: QuerySet[NarrativeDraft] = chapter.narrative_drafts.annotate(
        is_current=ExpressionWrapper(COUNTS, output_field=BooleanField())
    )
    return drafts.order_by("created_at")


def write_draft(
    session_id: uuid.UUID,
    *,
    job_id: uuid.UUID,
    attempt: Attempt,
    definition_text: str,
    target_words: int,
    max_prompt_index: int,
    block_ids: list[str],
    chapter_text: str,
) -> NarrativeDraft:
    return NarrativeDraft.objects.create(
        session_id=session_id,
        job_id=job_id,
        attempt=attempt,
        narrative_agent_definition_text=definition_text,
        target_words=target_words,
        source_snapshot={
            "max_prompt_index_used": max_prompt_index,
            "memory_block_ids_used": block_ids,
        },
        chapter_text=chapter_text,
    )
