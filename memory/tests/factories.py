"""Functions by which tests store memory blocks without a model."""

from collections.abc import Sequence
from typing import Any

from memory.blocks.blocks import make_delta, write_deltas
from memory.models import MemoryBlock
from sessions.chapter.access import tell_readers_apart
from sessions.models import Attempt, Session


def add_lock(chapter: Session, payload: dict[str, Any]) -> MemoryBlock:
    return add_block(chapter, MemoryBlock.Type.WORLD_CHAPTER_LOCK, 0, 0, payload)


def add_delta(
    chapter: Session,
    first: int,
    last: int,
    payload: dict[str, Any],
    *,
    audience: Sequence[int] | None = None,
) -> MemoryBlock:
    """Add a delta that belongs to the chosen attempt of the stretch's last turn.

    If the chapter lacks this turn, the delta belongs to no attempt and always counts.
    """
    turn = chapter.turns.filter(number=last).first()
    attempt = turn and turn.chosen
    known_to = list(chapter.selected_agent_slots if audience is None else audience)
    tell_readers_apart(chapter, known_to)
    kind = MemoryBlock.Type.TURN_DELTA
    told_until = last if attempt else None
    return add_block(
        chapter,
        kind,
        first,
        last,
        payload,
        attempt=attempt,
        audience=known_to,
        told_until=told_until,
    )


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


def write_delta(
    attempt: Attempt, *, from_prompt_index: int, payload: dict[str, Any]
) -> MemoryBlock | None:
    """Store a delta that all characters may read, and return it.

    Return None if the stretch has a delta already.
    """
    delta = make_delta(
        attempt,
        from_prompt_index=from_prompt_index,
        audience=attempt.session.selected_agent_slots,
        payload=payload,
    )
    return delta if write_deltas([delta]) else None
