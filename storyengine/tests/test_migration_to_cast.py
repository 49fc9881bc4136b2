"""Tests of the migration by which characters that were stored as JSON become rows of the cast."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from sessions.access import get_chapter
from sessions.models import Session
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.importing import import_chapter

pytestmark = [pytest.mark.weekly, pytest.mark.django_db(transaction=True)]

BEFORE = [("story_sessions", "0005_attempts_only")]
CONFIG = {"tab1_char_limit": 5_000, "tab2_char_limit": 60_000, "prompt_char_limit": 5_000}
# Each entry has a chapter's slots, names and identities, and the size of its stretches before and
# after the migration.
CHAPTERS: dict[str, tuple[list[int], dict[str, str], dict[str, str], Any, int]] = {
    "as it began": ([1, 2, 3], {}, {}, 7, 7),
    "played": ([1, 2], {"1": "Mara", "2": "Tom"}, {"1": "A ferrywoman.", "2": ""}, 7, 7),
    "deselected": ([1], {"1": "", "3": "Kara"}, {"2": "A priest.", "7": "A child."}, 7, 7),
    "of its own size": (
        list(range(1, 8)),
        {"7": "\N{WATER WAVE}" * 60},
        {"7": "x" * 5_000},
        20,
        20,
    ),
    "of no possible size": ([1, 2, 3], {}, {}, 1_000_000, 7),
    "being imported": ([1, 2], {"2": "Tom"}, {"2": "A priest."}, 7, 7),
}


@pytest.fixture
def chapters(transactional_db: None) -> Iterator[dict[str, Session]]:
    """Store chapters as a program without a cast did, run the migration, and yield the chapters."""
    try:
        executor = MigrationExecutor(connection)
        executor.migrate(BEFORE)
        apps = executor.loader.project_state(BEFORE).apps
        stored = {}
        for title, (slots, names, identities, size, _) in CHAPTERS.items():
            session = apps.get_model("story_sessions", "Session").objects.create(
                title=title,
                state="IMPORTING" if title == "being imported" else "DRAFT_TAB1",
                selected_agent_slots=slots,
                agent_names=names,
                config={"chunk_size_prompts": size, **CONFIG},
            )
            apps.get_model("story_sessions", "Tab1Inputs").objects.create(
                session=session, world_text="A world.", agent_identity_text_by_slot=identities
            )
            stored[title] = session.pk
        migrate_to_newest()
        yield {title: Session.everything.get(pk=pk) for title, pk in stored.items()}
    finally:
        # The database is restored even if the migration fails, because other tests need it.
        call_command("flush", interactive=False, verbosity=0, inhibit_post_migrate=True)
        migrate_to_newest()


def migrate_to_newest() -> None:
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def test_every_character_is_a_row_and_comes_back_from_a_file(chapters: dict[str, Session]) -> None:
    for title, (slots, names, identities, _, size) in CHAPTERS.items():
        chapter = chapters[title]
        check(chapter, slots, names, identities, size)
        # The chapter's seed is its id, so the same random numbers are drawn as before.
        assert chapter.seed == chapter.pk
        if title != "being imported":
            assert get_chapter(chapter.pk).tab1.world_text == "A world."
            copy = import_chapter(export_chapter(chapter.pk).to_json())
            check(copy, slots, names, identities, size)


def check(
    chapter: Session, slots: list[int], names: dict[str, str], texts: dict[str, str], size: int
) -> None:
    assert chapter.selected_agent_slots == slots
    assert chapter.agent_texts("name") == {slot: name for slot, name in names.items() if name}
    assert chapter.agent_texts("identity_text") == {
        slot: text for slot, text in texts.items() if text
    }
    assert chapter.chunk_size_prompts == size
    assert all(one.is_selected or one.name or one.identity_text for one in chapter.cast)
    assert not any(one.pronouns or one.public_text for one in chapter.cast)
