"""Blocks and drafts name the attempt at the last turn that they tell."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import IntegerField, OuterRef, Subquery
from django.db.models.functions import Cast


def name_attempts(apps, schema_editor):
    def chosen_at(number):
        turns = apps.get_model("story_sessions", "Turn").objects
        return Subquery(turns.filter(session=OuterRef("session"), number=number).values("chosen"))

    deltas = apps.get_model("memory", "MemoryBlock").objects.filter(type="turn_delta")
    deltas.update(attempt=chosen_at(OuterRef("to_prompt_index")))
    last = Cast(OuterRef("source_snapshot__max_prompt_index_used"), IntegerField())
    apps.get_model("memory", "NarrativeDraft").objects.update(attempt=chosen_at(last))
    # PostgreSQL changes no table whose rows it has still to check.
    schema_editor.connection.check_constraints()


class Migration(migrations.Migration):
    dependencies = [("memory", "0001_initial"), ("story_sessions", "0004_attempts")]

    operations = [
        migrations.AddField(
            "memoryblock",
            "attempt",
            models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="memory_blocks",
                to="story_sessions.attempt",
            ),
        ),
        migrations.AddField(
            "narrativedraft", "job_id", models.UUIDField(blank=True, null=True)
        ),
        migrations.AddField(
            "narrativedraft",
            "attempt",
            models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                to="story_sessions.attempt",
            ),
        ),
        migrations.RunPython(name_attempts, migrations.RunPython.noop),
    ]
