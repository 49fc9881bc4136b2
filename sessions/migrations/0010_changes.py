import uuid

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


def seed_chapters(apps, schema_editor):
    """A chapter from before has its id as its seed, so that its chance can be drawn again."""
    chapters = apps.get_model("story_sessions", "Session").objects
    chapters.update(seed=models.F("session_id"))


def tell_readers_apart(apps, schema_editor):
    """People without a panel witness what everybody does, which they did not before."""
    people = apps.get_model("story_sessions", "CastMember").objects.filter(slot=None)
    chapters = apps.get_model("story_sessions", "Session").objects
    chapters.filter(pk__in=people.values("session")).update(differs_by_reader=True)


class Migration(migrations.Migration):
    dependencies = [("story_sessions", "0009_mode")]

    operations = [
        migrations.AddField(
            "session", "seed", models.UUIDField(default=uuid.uuid4, editable=False)
        ),
        migrations.AddField("attempt", "text_run_id", models.UUIDField(blank=True, null=True)),
        migrations.AddField("event", "kind", models.CharField(default="said", max_length=40)),
        migrations.AddField("event", "shown", models.JSONField(blank=True, null=True)),
        migrations.CreateModel(
            name="Change",
            fields=[
                (
                    "change_id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("run_id", models.UUIDField(blank=True, null=True)),
                ("position", models.PositiveIntegerField()),
                ("kind", models.CharField(max_length=60)),
                ("payload", models.JSONField(default=dict)),
                ("cause", models.CharField(blank=True, max_length=60)),
                ("result", models.UUIDField(blank=True, null=True)),
                ("step", models.PositiveSmallIntegerField(default=0)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "attempt",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="changes",
                        to="story_sessions.attempt",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="changes",
                        to="story_sessions.session",
                    ),
                ),
            ],
            options={
                "ordering": ["position"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("attempt", "run_id", "position"), name="one_change_per_position"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("run_id", None)),
                        fields=("attempt", "position"),
                        name="one_act_per_position",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("result__isnull", False)),
                        fields=("run_id", "result"),
                        name="one_change_per_result_of_a_run",
                    ),
                ],
            },
        ),
        migrations.RunPython(seed_chapters, migrations.RunPython.noop),
        migrations.RunPython(tell_readers_apart, migrations.RunPython.noop),
    ]
