"""Tests of the migration by which every chapter gets a story."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from sessions.models import Session

pytestmark = [
    pytest.mark.weekly,
    pytest.mark.django_db(transaction=True),
    pytest.mark.servers,
]

BEFORE = [("story_sessions", "0019_reply_length")]
# The title of each chapter, with the title of its origin. A fork may be stored before its origin.
CHAPTERS = {"Fork of a fork": "Fork", "Fork": "Lamp", "Lamp": "", "Alone": "", "Orphan": ""}


@pytest.fixture
def chapters(transactional_db: None) -> Iterator[dict[str, Session]]:
    """Store chapters as a program without stories did, run the migration, and yield them."""
    try:
        executor = MigrationExecutor(connection)
        executor.migrate(BEFORE)
        model = executor.loader.project_state(BEFORE).apps.get_model("story_sessions", "Session")
        now = timezone.now()
        stored = {}
        for days, title in enumerate(CHAPTERS):
            is_orphan = title == "Orphan"
            stored[title] = model.objects.create(
                title=title,
                created_at=now - timedelta(days=days),
                forked_at_prompt=3 if CHAPTERS[title] or is_orphan else 0,
                state="IMPORTING" if title == "Fork of a fork" else "ACTIVE",
            )
        for title, origin in CHAPTERS.items():
            if origin:
                model.objects.filter(title=title).update(origin=stored[origin].pk)
        migrate_to_newest()
        yield {one.title: one for one in Session.everything.all()}
    finally:
        # The database is restored even if the migration fails, because other tests need it.
        call_command("flush", interactive=False, verbosity=0, inhibit_post_migrate=True)
        migrate_to_newest()


def migrate_to_newest() -> None:
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def test_forks_come_to_the_place_of_their_origin(chapters: dict[str, Session]) -> None:
    lamp = chapters["Lamp"].story
    for title in ("Fork", "Fork of a fork"):
        fork = chapters[title]
        assert (fork.story, fork.place, fork.is_chosen) == (lamp, 1, False)
    assert lamp.created_at == chapters["Lamp"].created_at
    for title in ("Lamp", "Alone", "Orphan"):
        assert (chapters[title].place, chapters[title].is_chosen) == (1, True)
    assert len({one.story_id for one in chapters.values()}) == 3
