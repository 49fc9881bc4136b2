from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def leave_room(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Let PostgreSQL keep a part of each page free for the next version of a row. Otherwise a
    renewed row could seldom stay on its page, and each index would have to be changed."""
    if schema_editor.connection.vendor == "postgresql":
        table = apps.get_model("story_sessions", "Attempt")._meta.db_table
        schema_editor.execute(f"ALTER TABLE {table} SET (fillfactor = 70)")


class Migration(migrations.Migration):
    dependencies = [
        ("story_sessions", "0028_library_indexes"),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name="attempt",
            name="attempt_lease",
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                condition=models.Q(("status", "running")),
                fields=["session"],
                name="attempt_running",
            ),
        ),
        migrations.RunPython(leave_room, migrations.RunPython.noop),
    ]
