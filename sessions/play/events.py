"""Writes the events of a committed attempt: the user's words, and then everything that was said or
shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from sessions.chapter.access import tell_readers_apart
from sessions.language.text import scrub_reply
from sessions.models import SAID, THOUGHT, Attempt, Event
from sessions.play.played_world import everybody_at
from sessions.record.event_terms import store_events

# The key under which `shown` keeps the text as a model wrote it, if the event has another text.
ORIGINAL = "original"


@dataclass(frozen=True)
class NewEvent:
    """Something that was said, shown or thought, by a member of the cast or by somebody else.

    `witnesses` are the members who could perceive the event, or None for the witnesses of the
    attempt. The speaker and the attempt's actor are always witnesses too. But a thought has only
    its thinker as a witness. `shown` is data that a page draws beside the event's text.
    """

    text: str
    speaker: int | None = None
    kind: str = SAID
    shown: dict[str, Any] | None = None
    witnesses: Sequence[int] | None = None
    role: str = Event.Role.AGENT


def reply(attempt: Attempt, text: str) -> list[NewEvent]:
    """Return the events of a reply that is plain text: a single event, which the attempt's actor
    says."""
    return [NewEvent(text, attempt.actor)]


def write_events(attempt: Attempt, outcome: Sequence[NewEvent]) -> list[Event]:
    """Store the words of a committed attempt, if it has any, and then the events of its outcome.

    The outcome has at least one event.
    """
    chapter, turn = attempt.session, attempt.turn
    assert turn is not None, "A committed attempt has a turn."
    witnesses = attempt.witnesses
    if witnesses is None:
        witnesses = [one.number for one in everybody_at(chapter, attempt=attempt)]
    assert outcome, "An attempt of which nothing came would leave no trace in the record."
    words = [NewEvent(attempt.words, role=Event.Role.USER)] if attempt.words else []
    now = timezone.now()
    rows = [
        Event(
            session=chapter,
            attempt=attempt,
            prompt_index=turn.number,
            position=position,
            role=one.role,
            kind=one.kind,
            agent_slot=one.speaker,
            text=scrub_reply(one.text),
            shown=one.shown,
            witnesses=_witnesses_of(one, attempt, witnesses),
            created_at=attempt.submitted_at if one.role == Event.Role.USER else now,
        )
        for position, one in enumerate([*words, *outcome])
    ]
    for row in rows:
        # After a thought, its thinker knows something that others do not. This holds even in a cast
        # of one character, because the narrator may not know the thought.
        tell_readers_apart(chapter, () if row.kind == THOUGHT else row.witnesses)
    store_events(rows)
    return rows


def _witnesses_of(one: NewEvent, attempt: Attempt, everybody: Sequence[int]) -> list[int]:
    if one.kind == THOUGHT:
        assert one.speaker is not None, "Somebody has the thought."
        return [one.speaker]
    told = everybody if one.witnesses is None else one.witnesses
    present = {*told, attempt.actor, one.speaker}
    return sorted(number for number in present if number is not None)
