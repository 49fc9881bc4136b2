"""Reads the drafts of a chapter for a file, and makes their rows from a file."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from memory.models import DraftChoice, MemoryBlock, NarrativeDraft, WorkingCopy
from memory.prose.drafts import ToldScene, stored_scenes, telling_of
from sessions.models import Session
from storyengine.exchange.chapter_file import (
    Chapter,
    ChosenDraftEntry,
    DraftEntry,
    KeptReceiptEntry,
    SceneEntry,
    WorkingCopyEntry,
)
from storyengine.exchange.file_parts import SourceSnapshot

# Returns the new id of an attempt by the number of its turn and its place there.
OfAttempt = Callable[[int, int | None], uuid.UUID | None]


def no_drafts() -> dict[str, Any]:
    """Return the fields of a file without drafts."""
    return {"narrative_drafts": [], "chosen_draft": None, "working_copies": []}


def read_drafts(
    chapter: Session, blocks: Sequence[MemoryBlock], attempts: Mapping[uuid.UUID, int]
) -> dict[str, Any]:
    """Return the fields of a file that have the chapter's drafts. `attempts` has the place of each
    attempt."""
    drafts = list(chapter.narrative_drafts.order_by("created_at", "pk"))
    places = {draft.pk: at for at, draft in enumerate(drafts)}
    of_blocks = {str(block.pk): at for at, block in enumerate(blocks)}
    choice = DraftChoice.objects.filter(session=chapter, draft__in=drafts).first()
    copies = WorkingCopy.objects.filter(session=chapter, draft__in=drafts)
    return {
        "narrative_drafts": [
            _draft(one, _origin(one, places), of_blocks, attempts) for one in drafts
        ],
        "chosen_draft": choice
        and ChosenDraftEntry.model_construct(
            draft=places[choice.draft_id], chosen_at=choice.chosen_at
        ),
        "working_copies": [
            WorkingCopyEntry.model_construct(
                draft=places[copy.draft_id], text=copy.text, saved_at=copy.saved_at
            )
            for copy in sorted(copies, key=lambda one: places[one.draft_id])
        ],
    }


def _draft(
    draft: NarrativeDraft,
    origin: int | None,
    blocks: Mapping[str, int],
    attempts: Mapping[uuid.UUID, int],
) -> DraftEntry:
    return DraftEntry.model_construct(
        narrative_agent_definition_text=draft.narrative_agent_definition_text,
        target_words=draft.target_words,
        source_snapshot=_snapshot(draft.source_snapshot, blocks),
        chapter_text=draft.chapter_text,
        created_at=draft.created_at,
        attempt=None if draft.attempt_id is None else attempts.get(draft.attempt_id),
        scenes=_scenes(draft),
        origin=origin,
        is_edited=draft.is_edited,
        kept_receipts=[KeptReceiptEntry.model_construct(**one) for one in draft.kept_receipts],
    )


def _origin(draft: NarrativeDraft, places: Mapping[uuid.UUID, int]) -> int | None:
    """Return the place of the draft's origin. The origin is left out if it would come after the
    draft, because the clock was set back meanwhile."""
    origin = None if draft.origin_id is None else places.get(draft.origin_id)
    return origin if origin is not None and origin < places[draft.pk] else None


def _scenes(draft: NarrativeDraft) -> list[SceneEntry]:
    return [
        SceneEntry.model_construct(
            first_prompt=scene.first,
            last_prompt=scene.last,
            target_words=scene.target_words,
            start=scene.start,
        )
        for scene in telling_of(draft).scenes
    ]


def _snapshot(stored: Mapping[str, Any], places: Mapping[str, int]) -> SourceSnapshot:
    used = stored.get("memory_block_ids_used", [])
    return SourceSnapshot.model_construct(
        max_prompt_index_used=stored.get("max_prompt_index_used", 0),
        memory_blocks_used=[places[pk] for pk in used if pk in places],
    )


def draft_rows(
    session: Session,
    chapter: Chapter,
    draft_ids: Sequence[uuid.UUID],
    block_ids: Sequence[uuid.UUID],
    of_attempt: OfAttempt,
) -> Iterator[NarrativeDraft]:
    for draft_id, draft in zip(draft_ids, chapter.narrative_drafts, strict=True):
        last = draft.source_snapshot.max_prompt_index_used
        scenes = [
            ToldScene(one.first_prompt, one.last_prompt, one.target_words, one.start)
            for one in draft.scenes
        ]
        yield NarrativeDraft(
            draft_id=draft_id,
            session=session,
            origin_id=None if draft.origin is None else draft_ids[draft.origin],
            is_edited=draft.is_edited,
            kept_receipts=[one.model_dump() for one in draft.kept_receipts],
            attempt_id=of_attempt(last, draft.attempt),
            narrative_agent_definition_text=draft.narrative_agent_definition_text,
            target_words=draft.target_words,
            source_snapshot={
                "max_prompt_index_used": last,
                "memory_block_ids_used": [
                    str(block_ids[at]) for at in draft.source_snapshot.memory_blocks_used
                ],
            },
            chapter_text=draft.chapter_text,
            scenes=stored_scenes(scenes),
            created_at=draft.created_at,
        )


def working_copies(
    session: Session, chapter: Chapter, draft_ids: Sequence[uuid.UUID]
) -> Iterator[WorkingCopy]:
    for copy in chapter.working_copies:
        yield WorkingCopy(
            draft_id=draft_ids[copy.draft], session=session, text=copy.text, saved_at=copy.saved_at
        )


def chosen_draft(
    session: Session, chapter: Chapter, draft_ids: Sequence[uuid.UUID]
) -> Iterator[DraftChoice]:
    if chosen := chapter.chosen_draft:
        yield DraftChoice(
            session=session, draft_id=draft_ids[chosen.draft], chosen_at=chosen.chosen_at
        )
