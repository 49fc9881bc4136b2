"""The indexes of the search on PostgreSQL, and the search without them."""

import logging
from collections.abc import Iterator
from importlib import import_module

import pytest
from django.apps import apps
from django.db import DatabaseError, connection, transaction
from hypothesis import given

from memory.shelf.finding_stories import find_stories
from sessions.language.spelling import plain_spelling
from sessions.language.tests.test_spelling import MARKED
from sessions.models import Event
from sessions.tests.factories import add_turn, make_active_chapter

pytestmark = [pytest.mark.django_db, pytest.mark.servers]

migration = import_module("memory.migrations.0002_search")


@pytest.fixture
def without_rights() -> Iterator[None]:
    """Let the connection act in a role that may not create extensions, and that owns no table, in
    a database without pg_trgm. The end of the test undoes it."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no extensions")
    with connection.cursor() as cursor:
        try:
            with transaction.atomic():
                cursor.execute("CREATE ROLE may_little NOLOGIN")
                cursor.execute("GRANT USAGE, CREATE ON SCHEMA public TO may_little")
                cursor.execute("DROP EXTENSION IF EXISTS pg_trgm CASCADE")
                cursor.execute("SET ROLE may_little")
        except DatabaseError:
            pytest.skip("the tests' own role may not create roles")
        yield
        cursor.execute("RESET ROLE")


def indexes() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT indexname FROM pg_indexes WHERE indexdef LIKE '%gin_trgm_ops%'")
        return {name for (name,) in cursor.fetchall()}


def skip_on_sqlite() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite is given the function of Python")


@given(MARKED.map(lambda text: text.replace("\0", "")))
def test_the_database_spells_as_python_does(text: str) -> None:
    skip_on_sqlite()
    with connection.cursor() as cursor:
        cursor.execute("SELECT plain_spelling(%s)", [text])
        assert cursor.fetchone() == (plain_spelling(text),)


def test_a_search_goes_by_the_index() -> None:
    skip_on_sqlite()
    chapter = make_active_chapter()
    add_turn(chapter, 1, words="Go on.", reply="Zoë hides the compass.")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    plan = Event.objects.filter(text__spells="zoë").order_by().explain()
    assert "event_text_search" in plan


def test_a_database_that_refuses_the_extension_is_searched_without_it(
    without_rights: None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), connection.schema_editor() as schema_editor:
        migration.add_indexes(apps, schema_editor)
    assert "the extension pg_trgm could not be used: InsufficientPrivilege" in caplog.text
    assert indexes() == set()
    with connection.cursor() as cursor:
        cursor.execute("RESET ROLE")
    chapter = make_active_chapter()
    add_turn(chapter, 1, words="Go on.", reply="I hide the brass compass.")
    assert find_stories("compass") == [chapter.story]
    assert find_stories("zeppelin") == []


def test_the_indexes_can_be_made_later(without_rights: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("RESET ROLE")
    with connection.schema_editor() as schema_editor:
        migration.add_indexes(apps, schema_editor)
    assert indexes() == set(migration.INDEXES)
