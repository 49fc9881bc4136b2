"""A chapter from a file, under ids of its own: all of it in one transaction, or nothing.

No model is called for it and nothing is queued: memory that is behind is written with the next
prompt, as in play.
"""

import uuid
from collections.abc import Sequence

from django.db import transaction
from django.utils import timezone

from memory.blocks import with_known_slots
from memory.models import MemoryBlock, NarrativeDraft
from sessions.access import get_chapter
from sessions.models import Event, Session, Tab1Inputs, Turn
from sessions.states import State
from storyengine.exchange.chapter_file import Chapter, DraftEntry, EventEntry, TurnEntry
from storyengine.exchange.limits import OVER_THE_NETWORK, Limits
from storyengine.exchange.reading import read_chapter_file

_BATCH = 1_000


def import_chapter(content: bytes, limits: Limits = OVER_THE_NETWORK) -> Session:
    """Raises BadChapterFile, before anything is written."""
    chapter = read_chapter_file(content, limits).chapter
    with transaction.atomic():
        session = _write_session(chapter)
        _write_events(session, chapter.events)
        blocks = _write_blocks(session, chapter)
        _write_drafts(session, chapter.narrative_drafts, blocks)
        _write_turns(session, chapter.unanswered_turns)
    return get_chapter(session.pk)


def _new_ids(entries: Sequence[object]) -> list[uuid.UUID]:
    """Ascending, because ids decide the order of entries that have the same time."""
    return sorted(uuid.uuid4() for _ in entries)


def _write_session(chapter: Chapter) -> Session:
    session = Session(
        title=chapter.title,
        state=State(chapter.state),
        prompt_index=chapter.prompt_index,
        last_summarized_prompt_index=chapter.last_summarized_prompt_index,
        selected_agent_slots=chapter.selected_agent_slots,
        agent_names=chapter.agent_names,
        tab1_locked=chapter.state != State.DRAFT_TAB1,
        config=chapter.config.model_dump(),
        next_agent_slot=chapter.next_agent_slot,
        narrative_agent_definition_text=chapter.narrative_agent_definition_text,
        target_words=chapter.target_words,
        created_at=chapter.created_at,
        last_played_at=chapter.last_played_at,
    )
    session.save(force_insert=True)
    Tab1Inputs.objects.create(session=session, **chapter.tab1.model_dump())
    return session


def _write_events(session: Session, events: Sequence[EventEntry]) -> None:
    Event.objects.bulk_create(
        [
            Event(event_id=event_id, session=session, **dict(event))
            for event_id, event in zip(_new_ids(events), events, strict=True)
        ],
        batch_size=_BATCH,
    )


def _write_blocks(session: Session, chapter: Chapter) -> list[MemoryBlock]:
    entries, slots = chapter.memory_blocks, chapter.selected_agent_slots
    return MemoryBlock.objects.bulk_create(
        [
            MemoryBlock(
                block_id=block_id,
                session=session,
                **dict(block) | {"json_payload": with_known_slots(block.json_payload, slots)},
            )
            for block_id, block in zip(_new_ids(entries), entries, strict=True)
        ],
        batch_size=_BATCH,
    )


def _write_drafts(
    session: Session, drafts: Sequence[DraftEntry], blocks: Sequence[MemoryBlock]
) -> None:
    NarrativeDraft.objects.bulk_create(
        [
            NarrativeDraft(
                draft_id=draft_id,
                session=session,
                narrative_agent_definition_text=draft.narrative_agent_definition_text,
                target_words=draft.target_words,
                source_snapshot={
                    "max_prompt_index_used": draft.source_snapshot.max_prompt_index_used,
                    "memory_block_ids_used": [
                        str(blocks[at].pk) for at in draft.source_snapshot.memory_blocks_used
                    ],
                },
                chapter_text=draft.chapter_text,
                created_at=draft.created_at,
            )
            for draft_id, draft in zip(_new_ids(drafts), drafts, strict=True)
        ],
        batch_size=_BATCH,
    )


def _write_turns(session: Session, turns: Sequence[TurnEntry]) -> None:
    Turn.objects.bulk_create(
        [
            Turn(
                turn_id=turn_id,
                session=session,
                submission_key=str(uuid.uuid4()),
                lease_until=timezone.now(),
                **dict(turn),
            )
            for turn_id, turn in zip(_new_ids(turns), turns, strict=True)
        ],
        batch_size=_BATCH,
    )
