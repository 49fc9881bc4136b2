"""A chapter as a file, as it was at one moment.

The API describes the same rows in documents of its own: those may grow with the program, while the
file has to stay what its version says.
"""

import uuid
from typing import Any

from django.db.models import Model, Q
from django.utils import timezone
from pydantic import BaseModel

from memory.models import MemoryBlock
from sessions.access import read_at_one_moment
from sessions.exceptions import UnknownChapter
from sessions.models import Attempt, Session
from sessions.states import State
from sessions.text import scrub_reply
from storyengine.exchange.chapter_file import (
    ERROR_CHAR_LIMIT,
    FORMAT,
    VERSION,
    Chapter,
    ChapterFile,
    Config,
    DraftEntry,
    EventEntry,
    MemoryBlockEntry,
    SourceSnapshot,
    Tab1,
    TurnEntry,
)

# Where work in the background goes on elsewhere, the chapter is as if it had been given up.
_SETTLED = {
    State.DRAFT_TAB1: State.DRAFT_TAB1,
    State.LOCKING: State.DRAFT_TAB1,
    State.ACTIVE: State.ACTIVE,
    State.SUMMARIZING: State.ACTIVE,
    State.ENDED: State.ENDED,
    State.NARRATING: State.ENDED,
}
_UNANSWERED = (
    Attempt.Status.RUNNING,
    Attempt.Status.FAILED,
    Attempt.Status.STOPPED,
    Attempt.Status.SET_ASIDE,
)


def export_chapter(session_id: uuid.UUID) -> ChapterFile:
    """Raises UnknownChapter.

    What is stored is not checked against the file's bounds: better a file that an import refuses
    than none.
    """
    content = read_at_one_moment(session_id, _read)
    return ChapterFile.model_construct(
        format=FORMAT, version=VERSION, exported_at=timezone.now(), chapter=content
    )


def _read(chapter: Session) -> Chapter:
    """All that was there when `chapter` was read; what came later is left out."""
    state = _SETTLED.get(State(chapter.state))
    if state is None:
        raise UnknownChapter("This chapter is being reset.")
    slots = chapter.selected_agent_slots
    blocks = _blocks(chapter) if state != State.DRAFT_TAB1 else []
    fields = _copy(
        chapter,
        Chapter,
        state=state.value,
        # On Tab 1 the agent that was chosen may be deselected again.
        next_agent_slot=chapter.next_agent_slot if chapter.next_agent_slot in slots else 1,
        config=Config.model_construct(**chapter.config),
        tab1=Tab1.model_construct(**_copy(chapter.tab1, Tab1)),
        events=_events(chapter),
        memory_blocks=[
            MemoryBlockEntry.model_construct(**_copy(block, MemoryBlockEntry)) for block in blocks
        ],
        narrative_drafts=_drafts(chapter, blocks),
        unanswered_turns=_turns(chapter),
    )
    return Chapter.model_construct(**fields)


def _copy(row: Model, part: type[BaseModel], **other: Any) -> dict[str, Any]:
    """What the row has under the names that the part of the file has, beside `other`."""
    names = [name for name in part.model_fields if name not in other]
    return {name: getattr(row, name) for name in names} | other


def _events(chapter: Session) -> list[EventEntry]:
    events = chapter.events.filter(prompt_index__lte=chapter.prompt_index)
    return [
        EventEntry.model_construct(**_copy(event, EventEntry))
        for event in events.order_by("prompt_index", "created_at", "pk")
    ]


def _blocks(chapter: Session) -> list[MemoryBlock]:
    is_delta = Q(type=MemoryBlock.Type.TURN_DELTA)
    known = chapter.memory_blocks.filter(
        Q(is_delta, to_prompt_index__lte=chapter.last_summarized_prompt_index)
        | Q(~is_delta, to_prompt_index__lte=chapter.prompt_index)
    )
    return list(known.order_by("created_at", "pk"))


def _drafts(chapter: Session, blocks: list[MemoryBlock]) -> list[DraftEntry]:
    places = {str(block.pk): at for at, block in enumerate(blocks)}
    return [
        DraftEntry.model_construct(
            **_copy(draft, DraftEntry, source_snapshot=_snapshot(draft.source_snapshot, places))
        )
        for draft in chapter.narrative_drafts.order_by("created_at", "pk")
    ]


def _snapshot(stored: dict[str, Any], places: dict[str, int]) -> SourceSnapshot:
    used = stored.get("memory_block_ids_used", [])
    return SourceSnapshot.model_construct(
        max_prompt_index_used=stored.get("max_prompt_index_used", 0),
        memory_blocks_used=[places[pk] for pk in used if pk in places],
    )


def _turns(chapter: Session) -> list[TurnEntry]:
    """A reply that is being written stands as one that was stopped: its words are in no event."""
    turns = chapter.attempts.filter(status__in=_UNANSWERED).order_by("submitted_at", "pk")
    return [
        TurnEntry.model_construct(
            **_copy(
                turn,
                TurnEntry,
                status=Attempt.Status.STOPPED.value if turn.is_running else turn.status,
                error=scrub_reply(turn.error)[:ERROR_CHAR_LIMIT],
            )
        )
        for turn in turns
    ]
