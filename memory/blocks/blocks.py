"""Stores memory blocks, reads the blocks that count, and moves the summary pointer."""

import uuid
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Case, IntegerField, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce
from django.utils import timezone

from memory.models import MemoryBlock
from sessions.chapter.access import tell_readers_apart
from sessions.chapter.chapters import name_after
from sessions.chapter.states import try_move
from sessions.limits import PAYLOAD_CHAR_LIMIT
from sessions.models import Attempt, Session, State
from sessions.payloads import check_stored_size

# The condition of a query for the blocks that count now. The lock and rulings belong to no attempt,
# and always count.
COUNTS = Q(attempt=None) | Q(attempt__chosen_for__isnull=False)
# The order of blocks of the same turn: rulings were made after the turn, so they come after its
# deltas.
_PLACE_AT_ITS_TURN = Case(
    When(type=MemoryBlock.Type.CANON_CORRECTION, then=Value(1)),
    default=Value(0),
    output_field=IntegerField(),
)


def counting_blocks(chapter: Session, *, before: int | None = None) -> QuerySet[MemoryBlock]:
    """Return the blocks that count, in the order of their turns. The deltas of one stretch are in
    the order of the last prompts that they tell.

    A block of an attempt counts while this attempt is chosen, and a ruling always counts. `before`
    is the number of a turn. With `before`, the result has all rulings, but of the other blocks only
    those that end before this turn. A new attempt at the turn needs this earlier memory.
    """
    is_ruling = Q(type=MemoryBlock.Type.CANON_CORRECTION)
    counts = COUNTS
    if before is not None:
        counts &= is_ruling | Q(to_prompt_index__lt=before)
    return chapter.memory_blocks.filter(counts).order_by(
        "to_prompt_index",
        _PLACE_AT_ITS_TURN,
        Coalesce("told_until", "to_prompt_index"),
        "created_at",
        "pk",
    )


def in_order(blocks: Iterable[MemoryBlock]) -> list[MemoryBlock]:
    """Return the blocks in the order of `counting_blocks`."""

    def place(block: MemoryBlock) -> tuple[Any, ...]:
        last = block.to_prompt_index
        is_ruling = block.type == MemoryBlock.Type.CANON_CORRECTION
        told_until = last if block.told_until is None else block.told_until
        return last, is_ruling, told_until, block.created_at, block.pk

    return sorted(blocks, key=place)


def knows(audience: Collection[int] | None, readers: Collection[int] | None) -> bool:
    """Return whether each of the readers knows a block with this audience.

    `readers` is None for the narrator, who knows every block. `audience` is None for the lock,
    which everybody knows.
    """
    return readers is None or audience is None or set(readers) <= set(audience)


def counting_deltas(chapter: Session, *, before: int | None = None) -> QuerySet[MemoryBlock]:
    """Return the deltas that count. `counting_blocks` explains `before`."""
    blocks = counting_blocks(chapter, before=before)
    return blocks.filter(type=MemoryBlock.Type.TURN_DELTA)


def stretch_starts(chapter: Session, before: int | None) -> list[int]:
    """Return the first prompt of each stretch that deltas cover, and then the first prompt that no
    delta covers.

    `counting_blocks` explains `before`.
    """
    deltas = counting_deltas(chapter, before=before).order_by()
    ends = dict(deltas.values_list("from_prompt_index", "to_prompt_index"))
    return [*sorted(ends), max(ends.values(), default=0) + 1]


def write_lock(
    session_id: uuid.UUID, payload: dict[str, Any], *, came_with_starter: bool = False
) -> MemoryBlock | None:
    """Store the lock, and open the chapter for play. A chapter that nobody has named is called as
    its premise. If the chapter is not being locked, do nothing and return None."""
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
        name_after(session_id, str(payload["chapter"]["premise"]))
        return MemoryBlock.objects.create(
            session_id=session_id,
            type=MemoryBlock.Type.WORLD_CHAPTER_LOCK,
            from_prompt_index=0,
            to_prompt_index=0,
            json_payload=payload,
            came_with_starter=came_with_starter,
        )


def with_known_slots(payload: dict[str, Any], slots: Sequence[int]) -> dict[str, Any]:
    """Return a delta's payload with 0 in place of each slot that is not in `slots`. The slot 0
    stands for people without a panel."""
    # A model may have written a slot as text and not as a number.
    known = [None, "", *(form for slot in (0, *slots) for form in (slot, str(slot)))]

    def with_known_slot(action: Any) -> Any:
        is_stray = isinstance(action, dict) and action.get("agent_slot") not in known
        return {**action, "agent_slot": 0} if is_stray else action

    actions = payload.get("character_actions")
    if isinstance(actions, list):
        return payload | {"character_actions": [with_known_slot(action) for action in actions]}
    return payload | {"character_actions": with_known_slot(actions)} if actions else payload


def make_delta(
    attempt: Attempt,
    *,
    from_prompt_index: int,
    audience: Sequence[int],
    payload: dict[str, Any],
    told_until: int | None = None,
    created_at: datetime | None = None,
) -> MemoryBlock:
    """Return a delta of the stretch that ends with this attempt, without storing it."""
    assert attempt.turn is not None, "A stretch ends with a committed attempt."
    return MemoryBlock(
        session_id=attempt.session_id,
        type=MemoryBlock.Type.TURN_DELTA,
        attempt=attempt,
        from_prompt_index=from_prompt_index,
        to_prompt_index=attempt.turn.number,
        told_until=told_until,
        audience=list(audience),
        json_payload=with_known_slots(payload, attempt.session.selected_agent_slots),
        created_at=created_at or timezone.now(),
    )


@transaction.atomic
def write_own_block(
    attempt: Attempt, kind: str, payload: dict[str, Any], audience: Collection[int]
) -> None:
    """Store a block about the attempt's turn. `kind` is one of the kinds of block that the mode
    declares.

    The block counts while the attempt is chosen. The summary pointer does not move. The caller must
    make sure that the audience knows everything that the block tells. If the attempt already has a
    block of this kind, nothing is stored, so that `Play.after_commit` may be called twice for an
    attempt. Raises InvalidInput for a payload that cannot be stored.
    """
    assert attempt.turn is not None, "A block is about a committed attempt."
    if MemoryBlock.objects.filter(attempt=attempt, type=kind).exists():
        return
    check_stored_size(payload, most=PAYLOAD_CHAR_LIMIT, label="A block of memory")
    readers, number = sorted(audience), attempt.turn.number
    tell_readers_apart(attempt.session, readers)
    # Processes cache composed requests. A new `updated_at` makes them compose the requests anew.
    Session.objects.filter(pk=attempt.session_id).update(updated_at=timezone.now())
    MemoryBlock.objects.create(
        session_id=attempt.session_id,
        type=kind,
        attempt=attempt,
        from_prompt_index=number,
        to_prompt_index=number,
        audience=readers,
        json_payload=payload,
    )


@transaction.atomic
def write_deltas(deltas: Sequence[MemoryBlock]) -> bool:
    """Store all deltas of one stretch, and move the summary pointer. The deltas come from
    `make_delta`.

    Returns False and stores no delta if the stretch already has its deltas. The summary pointer is
    set even then, because otherwise the same summary would be due again. The deltas are stored even
    if their attempt is no longer chosen, because they count when it is chosen again.
    """
    one = deltas[0]
    known = {"attempt": one.attempt, "from_prompt_index": one.from_prompt_index, "type": one.type}
    if MemoryBlock.objects.filter(**known).exists():
        settle_pointer(one.session_id)
        return False
    MemoryBlock.objects.bulk_create(deltas)
    for delta in deltas:
        if one.attempt and delta.audience is not None:
            tell_readers_apart(one.attempt.session, delta.audience)
    settle_pointer(one.session_id)
    return True


def covered_until(chapter: Session, *, up_to: int | None = None) -> int:
    """Return the number of the last prompt that memory reaches without a gap: the deltas that count
    cover it and all earlier prompts. With `up_to`, leave out deltas that end later."""
    deltas = counting_deltas(chapter)
    if up_to is not None:
        deltas = deltas.filter(to_prompt_index__lte=up_to)
    end = 0
    for first, last in deltas.values_list("from_prompt_index", "to_prompt_index"):
        if first == end + 1:
            end = last
    return end


def settle_pointer(session_id: uuid.UUID) -> None:
    """Set the summary pointer to the last prompt that memory reaches without a gap."""
    chapter = Session.objects.get(pk=session_id)
    end = covered_until(chapter)
    if end != chapter.last_summarized_prompt_index:
        Session.objects.filter(pk=session_id).update(
            last_summarized_prompt_index=end, updated_at=timezone.now()
        )
