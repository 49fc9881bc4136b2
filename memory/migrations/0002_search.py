"""The search of the home page finds words whatever marks their letters have, on PostgreSQL.

A function gives the plain spelling of a text, as sessions.language.spelling does, and the indexes
of groups of three letters have its results. Without the extension pg_trgm there are no indexes, and
a search reads all texts, as on SQLite.
"""

import logging

from django.apps.registry import Apps
from django.db import DatabaseError, migrations, transaction
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from sessions.language.spelling import KEPT, LETTERS, TAKEN_OFF

logger = logging.getLogger(__name__)

INDEXES = {
    "event_text_search": ("story_sessions_event", ["text"]),
    "tab1_search": ("story_sessions_tab1inputs", ["world_text", "chapter_text"]),
    "chapter_title_search": ("story_sessions_session", ["title"]),
    "story_title_search": ("story_sessions_story", ["title"]),
    "draft_text_search": ("memory_narrativedraft", ["chapter_text"]),
}
# The steps are those of sessions.language.spelling. The slow ones are left out for texts that they
# would not change, which is most of English.
FUNCTION = """
CREATE OR REPLACE FUNCTION plain_spelling(text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $function$
DECLARE
  plain text := replace($1, '\u2019', '''');
BEGIN
  IF plain !~ '[^\\u0001-\\u007f{kept}]' THEN
    RETURN lower(plain);
  END IF;
  plain := regexp_replace(lower(normalize(plain, NFKD){collation}), '{taken_off}', '', 'g');
  IF plain ~ '[{letters}]' THEN
    plain := {translated};
  END IF;
  IF plain !~ '[^\\u0001-\\u007f{kept}]' THEN
    RETURN plain;
  END IF;
  RETURN normalize(plain, NFC);
END
$function$
"""


def add_function(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if schema_editor.connection.vendor == "postgresql":
        with schema_editor.connection.cursor() as cursor:
            cursor.execute("SELECT lower('Ж') = 'ж'")
            [knows_capitals] = cursor.fetchone()
            cursor.execute("SELECT count(*) FROM pg_collation WHERE collname = 'und-x-icu'")
            [has_icu] = cursor.fetchone()
        # A database with the locale C knows only the capital letters of English.
        collation = ' COLLATE "und-x-icu"' if has_icu and not knows_capitals else ""
        schema_editor.execute(function_text(collation), params=None)


def function_text(collation: str) -> str:
    single = {letter: plain for letter, plain in LETTERS.items() if len(plain) == 1}
    translated = f"translate(plain, {_quoted(single)}, {_quoted(single.values())})"
    for letter, plain in LETTERS.items():
        if letter not in single:
            translated = f"replace({translated}, '{letter}', '{plain}')"
    return FUNCTION.format(
        kept=KEPT,
        collation=collation,
        taken_off=TAKEN_OFF,
        letters="".join(LETTERS),
        translated=translated,
    )


def _quoted(letters) -> str:
    return "'{}'".format("".join(letters).replace("'", "''"))


def add_indexes(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Add the extension and the indexes, or nothing where the database refuses one of them."""
    if schema_editor.connection.vendor != "postgresql":
        return
    try:
        with transaction.atomic(using=schema_editor.connection.alias):
            schema_editor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
            for name, (table, columns) in INDEXES.items():
                parts = ", ".join(f"plain_spelling({one}) gin_trgm_ops" for one in columns)
                schema_editor.execute(f"CREATE INDEX {name} ON {table} USING gin ({parts})")
    except DatabaseError as error:
        logger.warning(
            "The search of stories reads all texts, because the extension pg_trgm could not be used: %s",
            type(error.__cause__ or error).__name__,
        )


def drop_all(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if schema_editor.connection.vendor == "postgresql":
        for name in INDEXES:
            schema_editor.execute(f"DROP INDEX IF EXISTS {name}")
        schema_editor.execute("DROP FUNCTION IF EXISTS plain_spelling(text)")


class Migration(migrations.Migration):
    dependencies = [("memory", "0001_initial"), ("story_sessions", "0001_initial")]

    operations = [
        migrations.RunPython(add_function, drop_all),
        migrations.RunPython(add_indexes, migrations.RunPython.noop),
    ]
