"""Writes the events of a committed attempt: the user's words, and then everything that was said or
shown. Each event is stored with the terms that a search can find it by.

The terms of an event are a row of their own, so that queries for events need not read them. The row
is stored with its event in one transaction, never changes, and is deleted with the event.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from sessions.chapter.access import tell_readers_apart
from sessions.language.languages import find_language, stemmer_of
from sessions.language.text import scrub_reply
from sessions.language.words import language_of, terms_of
from sessions.limits import FOUND_CHAR_LIMIT
from sessions.models import SAID, THOUGHT, Attempt, Event, EventTerms, Session
from sessions.play.played_world import everybody_at

# If the event has another text than the model wrote, `shown` keeps the model's text under this key.
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


def store_events(events: Sequence[Event]) -> None:
    """Store the events of one attempt with their terms, and store the language of the chapter if
    these are the first events that show it."""
    Event.objects.bulk_create(events)
    of_chapter = Session.everything.filter(pk=events[0].session_id)
    chapter = of_chapter.only("language", "found_language").get()
    if not chapter.found_language and (found := find_language(_texts(events))):
        of_chapter.update(found_language=found)
        chapter.found_language = found
    EventTerms.objects.bulk_create(make_terms(events, language_of_terms(events, chapter)))


def language_of_terms(events: Sequence[Event], chapter: Session) -> str:
    """Return the language for making the terms of an attempt's events: the language that the user
    has set, or the language that the events show. Events that show no language, such as "Ja.", have
    the language of the chapter."""
    shown = "" if chapter.language else language_of(_texts(events))
    return shown or stemmer_of(chapter.told_language)


def _texts(events: Sequence[Event]) -> list[str]:
    return [event.text[:FOUND_CHAR_LIMIT] for event in events]


def make_terms(events: Sequence[Event], language: str) -> list[EventTerms]:
    """Return the rows with the terms of an attempt's events, without storing them."""
    rows = []
    for event in events:
        counts = Counter(terms_of(event.text[:FOUND_CHAR_LIMIT], language))
        row = EventTerms(event=event, language=language, length=counts.total(), counts=counts)
        rows.append(row)
    return rows
