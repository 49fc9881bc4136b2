"""Events of older programs get terms that a question finds whatever marks its letters have.

Only events with such letters are read as words again. It may be broken off and done again: each batch
is a transaction of its own, and the same text always has the same terms.
"""

from collections import Counter

from django.db import migrations, transaction

from sessions.limits import FOUND_CHAR_LIMIT
from sessions.spelling import even_spelling, plain_spelling
from sessions.words import terms_of

# Events at a time: each may have many thousand characters.
BATCH = 200


def store_terms(apps, schema_editor):
    database = schema_editor.connection.alias
    EventTerms = apps.get_model("story_sessions", "EventTerms").objects.using(database)
    rows = EventTerms.order_by("pk").values_list("pk", "language", "event__text")
    batch = list(rows[:BATCH])
    while batch:
        store_batch(EventTerms, batch)
        batch = list(rows.filter(pk__gt=batch[-1][0])[:BATCH])


def store_batch(EventTerms, batch):
    made = []
    for key, language, text in batch:
        found = text[:FOUND_CHAR_LIMIT]
        if plain_spelling(found) != even_spelling(found):
            counts = Counter(terms_of(found, language))
            row = {"language": language, "length": counts.total(), "counts": dict(counts)}
            made.append(EventTerms.model(event_id=key, **row))
    with transaction.atomic(EventTerms.db):
        EventTerms.filter(pk__in=[one.event_id for one in made]).delete()
        EventTerms.bulk_create(made)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("story_sessions", "0032_kept_setup")]

    operations = [migrations.RunPython(store_terms, migrations.RunPython.noop)]
