"""Blocks have an audience. Those from before were everybody's: that of deltas and rulings is the
cast of the chapter, and the lock keeps none."""

from django.db import migrations, models
from django.db.models import OuterRef, Q, Subquery


def name_audiences(apps, schema_editor):
    chapters = apps.get_model("story_sessions", "Session").objects
    cast = chapters.filter(pk=OuterRef("session")).values("selected_agent_slots")
    blocks = apps.get_model("memory", "MemoryBlock").objects
    blocks.exclude(type="world_chapter_lock").update(audience=Subquery(cast))


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0003_one_delta_per_stretch"),
        ("story_sessions", "0005_attempts_only"),
    ]

    operations = [
        migrations.AddField("memoryblock", "audience", models.JSONField(blank=True, null=True)),
        migrations.RunPython(name_audiences, migrations.RunPython.noop),
        migrations.RemoveConstraint("memoryblock", "one_delta_per_stretch"),
        migrations.AddConstraint(
            "memoryblock",
            models.UniqueConstraint(
                fields=("attempt", "from_prompt_index", "audience"),
                condition=Q(type="turn_delta"),
                name="one_delta_per_audience",
            ),
        ),
    ]
