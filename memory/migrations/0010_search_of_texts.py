"""Indexes for the search of the home page, on PostgreSQL.

A search finds words within longer words, so the indexes are of groups of three letters, by the
extension pg_trgm. The owner of a database may create it. Where it is not installed, or the owner may
not, there are no indexes, and a search reads all texts, as on SQLite.
"""

import logging

from django.apps.registry import Apps
from django.db import DatabaseError, migrations, transaction
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

logger = logging.getLogger(__name__)

INDEXES = {
    "event_text_search": ("story_sessions_event", ["text"]),
    "tab1_search": ("story_sessions_tab1inputs", ["world_text", "chapter_text"]),
    "chapter_title_search": ("story_sessions_session", ["title"]),
    "story_title_search": ("story_sessions_story", ["title"]),
    "draft_text_search": ("memory_narrativedraft", ["chapter_text"]),
}


def add_indexes(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Add the extension and the indexes, or nothing where the database refuses one of them."""
    if schema_editor.connection.vendor != "postgresql":
        return
    try:
        with transaction.atomic(using=schema_editor.connection.alias):
            schema_editor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
            for name, (table, columns) in INDEXES.items():
                index_texts(schema_editor, name, table, columns)
    except DatabaseError as error:
        logger.warning(
            "The search of stories reads all texts, because the extension pg_trgm could not be used: %s",
            type(error.__cause__ or error).__name__,
        )


def index_texts(
    schema_editor: BaseDatabaseSchemaEditor, name: str, table: str, columns: list[str]
) -> None:
    # Django compares texts in capital letters when capital letters count as small ones.
    parts = ", ".join(f"upper({column}::text) gin_trgm_ops" for column in columns)
    schema_editor.execute(f"CREATE INDEX {name} ON {table} USING gin ({parts})")


def drop_indexes(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if schema_editor.connection.vendor == "postgresql":
        for name in INDEXES:
            schema_editor.execute(f"DROP INDEX IF EXISTS {name}")


class Migration(migrations.Migration):
    dependencies = [("memory", "0009_working_copies"), ("story_sessions", "0029_running_attempts")]

    operations = [migrations.RunPython(add_indexes, drop_indexes)]
