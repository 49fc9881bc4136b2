"""A chapter from a file, under ids of its own: all of it, or nothing.

It is stored piece by piece, and there once it is whole (sessions.importing). No model is called for
it and nothing is queued: memory that is behind is written with the next prompt, as in play, or
after the GM has accepted the calls (agents.flows.memory_calls).
"""

import uuid
from collections.abc import Iterator, Sequence

from django.utils import timezone

from memory.blocks import with_known_slots
from memory.models import MemoryBlock, NarrativeDraft
from sessions.access import get_chapter
from sessions.importing import importing, store_rows
from sessions.models import Attempt, Event, Session, Tab1Inputs
from sessions.states import State
from storyengine.exchange.chapter_file import (
    Chapter,
    DraftEntry,
    EventEntry,
    MemoryBlockEntry,
    TurnEntry,
)
from storyengine.exchange.limits import OVER_THE_NETWORK, Limits
from storyengine.exchange.reading import read_chapter_file


def import_chapter(content: bytes, limits: Limits = OVER_THE_NETWORK) -> Session:
    """Raises BadChapterFile, before anything is written."""
    chapter = read_chapter_file(content, limits).chapter
    session = _session(chapter)
    block_ids = _new_ids(chapter.memory_blocks)
    with importing(session, Tab1Inputs(session=session, **chapter.tab1.model_dump())):
        store_rows(session, _events(session, chapter.events))
        store_rows(session, _blocks(session, chapter.memory_blocks, block_ids))
        store_rows(session, _drafts(session, chapter.narrative_drafts, block_ids))
        store_rows(session, _turns(session, chapter.unanswered_turns))
    return get_chapter(session.pk)


def _new_ids(entries: Sequence[object]) -> list[uuid.UUID]:
    """Ascending, because ids decide the order of entries that have the same time."""
    return sorted(uuid.uuid4() for _ in entries)


def _session(chapter: Chapter) -> Session:
    return Session(
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


def _events(session: Session, events: Sequence[EventEntry]) -> Iterator[Event]:
    for event_id, event in zip(_new_ids(events), events, strict=True):
        yield Event(event_id=event_id, session=session, **dict(event))


def _blocks(
    session: Session, blocks: Sequence[MemoryBlockEntry], block_ids: Sequence[uuid.UUID]
) -> Iterator[MemoryBlock]:
    for block_id, block in zip(block_ids, blocks, strict=True):
        payload = with_known_slots(block.json_payload, session.selected_agent_slots)
        yield MemoryBlock(
            block_id=block_id, session=session, **dict(block) | {"json_payload": payload}
        )


def _drafts(
    session: Session, drafts: Sequence[DraftEntry], block_ids: Sequence[uuid.UUID]
) -> Iterator[NarrativeDraft]:
    for draft_id, draft in zip(_new_ids(drafts), drafts, strict=True):
        yield NarrativeDraft(
            draft_id=draft_id,
            session=session,
            narrative_agent_definition_text=draft.narrative_agent_definition_text,
            target_words=draft.target_words,
            source_snapshot={
                "max_prompt_index_used": draft.source_snapshot.max_prompt_index_used,
                "memory_block_ids_used": [
                    str(block_ids[at]) for at in draft.source_snapshot.memory_blocks_used
                ],
            },
            chapter_text=draft.chapter_text,
            created_at=draft.created_at,
        )


def _turns(session: Session, turns: Sequence[TurnEntry]) -> Iterator[Attempt]:
    for turn_id, turn in zip(_new_ids(turns), turns, strict=True):
        yield Attempt(
            attempt_id=turn_id,
            session=session,
            submission_key=str(uuid.uuid4()),
            lease_until=timezone.now(),
            **dict(turn),
        )
