"""Memory as tests find it: written beforehand, by nobody."""

from typing import Any

from memory.models import MemoryBlock
from sessions.models import Session


def add_lock(chapter: Session, payload: dict[str, Any]) -> MemoryBlock:
    return add_block(chapter, MemoryBlock.Type.WORLD_CHAPTER_LOCK, 0, 0, payload)


def add_delta(chapter: Session, first: int, last: int, payload: dict[str, Any]) -> MemoryBlock:
    """It counts while its last turn goes by the present attempt; without such a turn, always."""
    turn = chapter.turns.filter(number=last).first()
    attempt = turn and turn.chosen
    return add_block(chapter, MemoryBlock.Type.TURN_DELTA, first, last, payload, attempt=attempt)


def add_block(
    chapter: Session,
    kind: MemoryBlock.Type,
    first: int,
    last: int,
    payload: dict[str, Any],
    **fields: Any,
) -> MemoryBlock:
    return MemoryBlock.objects.create(
        session=chapter,
        type=kind,
        from_prompt_index=first,
        to_prompt_index=last,
        json_payload=payload,
        **fields,
    )
