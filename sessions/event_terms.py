"""Stores events, each with the terms by which it can be found.

The terms of an event are a row of their own, so that nobody who reads events reads them. The row
is stored with its event in one transaction, never changes, and is deleted with the event.
"""

from collections import Counter
from collections.abc import Sequence

from sessions.limits import FOUND_CHAR_LIMIT
from sessions.models import Event, EventTerms
from sessions.stop_words import ENGLISH
from sessions.words import language_of, terms_of


def store_events(events: Sequence[Event]) -> None:
    """Store the events of one attempt with their terms."""
    Event.objects.bulk_create(events)
    language = shown_language(events) or _language_before(events[0])
    EventTerms.objects.bulk_create(make_terms(events, language))


def shown_language(events: Sequence[Event]) -> str:
    """Return the language of an attempt's events, or "" if they do not show it, as "Ja." does not.
    They then have the language of the turn before."""
    return language_of(event.text[:FOUND_CHAR_LIMIT] for event in events)


def make_terms(events: Sequence[Event], language: str) -> list[EventTerms]:
    """Return the rows with the terms of an attempt's events, without storing them."""
    rows = []
    for event in events:
        counts = Counter(terms_of(event.text[:FOUND_CHAR_LIMIT], language))
        row = EventTerms(event=event, language=language, length=counts.total(), counts=counts)
        rows.append(row)
    return rows


def _language_before(event: Event) -> str:
    """Return the language of the latest turn before the event's turn."""
    earlier = EventTerms.objects.filter(
        event__session=event.session_id,
        event__prompt_index__lt=event.prompt_index,
        event__attempt__chosen_for__isnull=False,
    ).order_by("-event__prompt_index", "event__position")
    return earlier.values_list("language", flat=True).first() or ENGLISH
