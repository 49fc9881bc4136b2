"""Stores events, each with the terms by which it can be found.

The terms of an event are a row of their own, so that queries for events need not read them. The row
is stored with its event in one transaction, never changes, and is deleted with the event.
"""

from collections import Counter
from collections.abc import Sequence

from sessions.language.languages import find_language, stemmer_of
from sessions.language.words import language_of, terms_of
from sessions.limits import FOUND_CHAR_LIMIT
from sessions.models import Event, EventTerms, Session


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
    """Return the language by which the terms of an attempt's events are made: the language that the
    user has set, or the language that the events show. Events that show no language, such as "Ja.",
    have the language of the chapter."""
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
