"""Tests of the migration that gives events of older programs terms without marks."""

import uuid
from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection

from sessions.models import EventTerms
from sessions.tests.factories import add_turn, make_active_chapter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.servers]

migration = import_module("sessions.migrations.0033_terms_without_marks")


def counts() -> dict[uuid.UUID, dict[str, int]]:
    return {one.event_id: one.counts for one in EventTerms.objects.all()}


def test_older_events_get_the_terms_that_new_ones_have(monkeypatch: pytest.MonkeyPatch) -> None:
    chapter = make_active_chapter()
    for number, words in enumerate(("Zoë chante.", "The lamp.", "Łódź", "灯台"), 1):
        add_turn(chapter, number, words=words, reply=words)
    stored = counts()
    assert {"zoe": 1, "chant": 1} in stored.values()
    # An older program kept the marks.
    for event, its_counts in stored.items():
        if "zoe" in its_counts or "lodz" in its_counts:
            EventTerms.objects.filter(pk=event).delete()
            older = {"zoë": 1, "łódź": 1}
            EventTerms.objects.create(event_id=event, language="english", length=2, counts=older)
    monkeypatch.setattr(migration, "BATCH", 3)
    with connection.schema_editor(atomic=False) as editor:
        migration.store_terms(apps, editor)
    assert counts() == stored
