"""Writing memory: blocks are added in order, with the pointer that says how far they go."""

import uuid
from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from memory.models import MemoryBlock
from sessions.models import Session
from sessions.states import State, try_move
from sessions.transcript import chosen_events


def write_lock(session_id: uuid.UUID, payload: dict[str, Any]) -> MemoryBlock | None:
    """Store the first block and open the chapter for play; None when it is not being locked."""
    with transaction.atomic():
        chapter = Session.objects.filter(pk=session_id)
        opened = try_move(
            chapter.filter(state=State.LOCKING),
            State.ACTIVE,
            tab1_locked=True,
            prompt_index=0,
            last_summarized_prompt_index=0,
            updated_at=timezone.now(),
        )
        if not opened:
            return None
        return MemoryBlock.objects.create(
            session_id=session_id,
            type=MemoryBlock.Type.WORLD_CHAPTER_LOCK,
            from_prompt_index=0,
            to_prompt_index=0,
            json_payload=payload,
        )


def with_known_slots(payload: dict[str, Any], slots: Sequence[int]) -> dict[str, Any]:
    """A delta's payload in which whoever acts under a slot that is none of these has slot 0, as
    the Game Master's own people have."""
    # A slot may have come in digits.
    known = [None, "", *(form for slot in (0, *slots) for form in (slot, str(slot)))]

    def with_known_slot(action: Any) -> Any:
        is_stray = isinstance(action, dict) and action.get("agent_slot") not in known
        return {**action, "agent_slot": 0} if is_stray else action

    actions = payload.get("character_actions")
    if isinstance(actions, list):
        return payload | {"character_actions": [with_known_slot(action) for action in actions]}
    return payload | {"character_actions": with_known_slot(actions)} if actions else payload


def write_delta(
    session_id: uuid.UUID,
    *,
    from_prompt_index: int,
    to_prompt_index: int,
    payload: dict[str, Any],
    event_ids: list[uuid.UUID],
) -> MemoryBlock | None:
    """Store the delta of one chunk and move the summary pointer over it.

    `event_ids` are the events that the delta was written from. None, and nothing written, when
    the chunk is covered already, a re-roll of one of its prompts is in flight, or its chosen
    events are no longer those.
    """
    with transaction.atomic():
        pointer = Session.objects.filter(
            Q(rerolling_prompt_index=None) | Q(rerolling_prompt_index__gt=to_prompt_index),
            pk=session_id,
            last_summarized_prompt_index=from_prompt_index - 1,
            prompt_index__gte=to_prompt_index,
        )
        if not pointer.update(
            last_summarized_prompt_index=to_prompt_index, updated_at=timezone.now()
        ):
            return None
        chapter = Session.objects.get(pk=session_id)
        chunk = chosen_events(chapter, from_prompt=from_prompt_index, to_prompt=to_prompt_index)
        if [event.pk for event in chunk] != event_ids:
            transaction.set_rollback(True)
            return None
        return MemoryBlock.objects.create(
            session_id=session_id,
            type=MemoryBlock.Type.TURN_DELTA,
            from_prompt_index=from_prompt_index,
            to_prompt_index=to_prompt_index,
            json_payload=with_known_slots(payload, chapter.selected_agent_slots),
        )
