"""Events of older programs get the terms by which they can be found.

It goes on where it was broken off: each batch is a transaction of its own, and an event that has its
terms is left alone.
"""

from collections import Counter
from itertools import groupby, islice

from django.db import migrations, transaction

from sessions.limits import FOUND_CHAR_LIMIT
from sessions.stop_words import ENGLISH
from sessions.words import language_of, terms_of

# Attempts at a time: the events of each may have many thousand characters.
BATCH = 100


def store_terms(apps, schema_editor):
    database = schema_editor.connection.alias
    Event, EventTerms = (apps.get_model("story_sessions", n) for n in ("Event", "EventTerms"))
    events = Event.objects.using(database).order_by()
    for session in list(events.filter(terms=None).values_list("session", flat=True).distinct()):
        # Only the keys of a chapter are read at once, because its texts may have many megabytes.
        rows = events.filter(session=session).order_by("prompt_index", "attempt", "position")
        keys = rows.values_list("pk", "prompt_index", "attempt", "attempt__chosen_for", "terms")
        attempts = [list(of) for _, of in groupby(list(keys), key=lambda row: row[1:3])]
        languages = {0: ENGLISH}
        waiting = iter(attempts)
        while batch := list(islice(waiting, BATCH)):
            store_batch(events, EventTerms.objects.using(database), batch, languages)


def store_batch(events, terms, batch, languages):
    """Store the terms of the batch's attempts. `languages` has the language of the
    turns just before, as their chosen attempts show it."""
    texts = dict(
        events.filter(pk__in=[row[0] for of in batch for row in of]).values_list("pk", "text")
    )
    made = []
    for of_attempt in batch:
        _, number, _, chosen_for, _ = of_attempt[0]
        before = languages[max(one for one in languages if one < max(number, 1))]
        found = {row[0]: texts.get(row[0], "")[:FOUND_CHAR_LIMIT] for row in of_attempt}
        language = language_of(found.values()) or before
        if chosen_for is not None:
            languages[number] = language
            for earlier in [one for one in languages if one < number - 1]:
                del languages[earlier]
        for key, _, _, _, has_terms in of_attempt:
            if has_terms is None:
                counts = Counter(terms_of(found[key], language))
                made.append(
                    terms.model(
                        event_id=key,
                        language=language,
                        length=counts.total(),
                        counts=dict(counts),
                    )
                )
    with transaction.atomic(terms.db):
        terms.bulk_create(made, ignore_conflicts=True)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("story_sessions", "0016_event_terms")]

    operations = [migrations.RunPython(store_terms, migrations.RunPython.noop)]
