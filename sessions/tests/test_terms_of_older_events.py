"""Tests of the migration that gives the events of older programs their terms."""

import uuid
from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection

from sessions.models import Event, EventTerms, Session
from sessions.tests.factories import add_prompts, add_reply, make_active_chapter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.servers]

migration = import_module("sessions.migrations.0017_terms_of_older_events")

Rows = dict[object, tuple[str, int, dict[str, int]]]


def rows() -> Rows:
    return {one.pk: (one.language, one.length, one.counts) for one in EventTerms.objects.all()}


def migrate() -> None:
    with connection.schema_editor(atomic=False) as editor:
        migration.store_terms(apps, editor)


@pytest.fixture
def chapters() -> list[Session]:
    """Two chapters in two languages. Their last turns do not show the language by themselves."""
    chapters: list[Session] = []
    for words, last in (
        ("Wo sind die Laternen, und wer hat sie?", "Laternen"),
        ("Where are the lanterns, and who has them?", "Lanterns"),
    ):
        chapter = make_active_chapter()
        add_prompts(chapter, 3, text=words, reply=words)
        # This attempt is the last one that the migration reads of the turn.
        add_reply(
            chapter,
            3,
            "What is this, and where is it? Who has been here before them?",
            is_chosen=False,
            attempt_id=uuid.UUID(int=2**128 - 1 - len(chapters)),
        )
        add_prompts(chapter, 2, text=last, reply=last)
        chapters.append(chapter)
    return chapters


def test_they_have_what_this_program_stores(
    chapters: list[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = rows()
    assert len(stored) == 24
    EventTerms.objects.all().delete()
    monkeypatch.setattr(migration, "BATCH", 2)
    migrate()
    assert rows() == stored
    assert {language for language, _, _ in stored.values()} == {"english", "german"}


def test_it_goes_on_where_it_was_broken_off(chapters: list[Session]) -> None:
    stored = rows()
    kept = Event.objects.filter(prompt_index__in=[1, 3], role=Event.Role.USER)
    EventTerms.objects.exclude(event__in=kept).delete()
    assert 0 < EventTerms.objects.count() < len(stored)
    migrate()
    assert rows() == stored
    migrate()
    assert rows() == stored
