"""The record of play: the events of chosen attempts, in order."""

import uuid
from collections.abc import Collection

from django.db.models import Q, QuerySet

from sessions.models import THOUGHT, Attempt, Event, Session, Turn


def chosen_events(
    chapter: Session,
    *,
    from_prompt: int = 1,
    to_prompt: int | None = None,
    last_attempt: uuid.UUID | None = None,
    with_thoughts: bool = False,
    prompts: Collection[int] | None = None,
) -> "QuerySet[Event]":
    """Return the events of the chosen attempts at the turns `from_prompt` to `to_prompt`, both
    included. With `prompts`, return only those at the turns with these numbers.

    `last_attempt` is the id of an attempt at turn `to_prompt`. With it, the events of this attempt
    replace those of the chosen attempt at this turn. Thoughts are included only with
    `with_thoughts`.
    """
    told = Q(attempt__chosen_for__isnull=False)
    if last_attempt is not None:
        told = (told & Q(prompt_index__lt=to_prompt)) | Q(attempt=last_attempt)
    events = chapter.events.filter(told, prompt_index__gte=from_prompt)
    if to_prompt is not None:
        events = events.filter(prompt_index__lte=to_prompt)
    if prompts is not None:
        events = events.filter(prompt_index__in=prompts)
    if not with_thoughts:
        events = events.exclude(kind=THOUGHT)
    return events.order_by("prompt_index", "position")


def other_events(
    chapter: Session, *, from_prompt: int, to_prompt: int, with_thoughts: bool = False
) -> "QuerySet[Event]":
    """Return the events of the attempts that are not chosen, at the turns `from_prompt` to
    `to_prompt`. The oldest attempt at a turn comes first.

    Thoughts are included only with `with_thoughts`.
    """
    events = chapter.events.filter(
        attempt__chosen_for__isnull=True,
        prompt_index__gte=from_prompt,
        prompt_index__lte=to_prompt,
    )
    if not with_thoughts:
        events = events.exclude(kind=THOUGHT)
    return events.order_by("prompt_index", "attempt__committed_at", "attempt", "position")


def has_thoughts(chapter: Session) -> bool:
    """Return whether a committed attempt of the chapter has a thought."""
    # `differs_by_reader` is checked first, because no query is needed for this check. The field is
    # True in every chapter with a thought, because only the thinker witnesses it.
    return chapter.differs_by_reader and chapter.events.filter(kind=THOUGHT).exists()


def attempts_at(turn: Turn) -> list[Attempt]:
    """Return the committed attempts at the turn with their events, oldest first."""
    attempts = committed_attempts(turn.session_id).filter(turn=turn)
    return list(attempts.prefetch_related("events"))


def committed_attempts(session_id: uuid.UUID) -> "QuerySet[Attempt]":
    """Return the committed attempts at all turns of the chapter, oldest first."""
    committed = Attempt.objects.filter(session=session_id, status=Attempt.Status.COMMITTED)
    return committed.order_by("committed_at", "pk")
