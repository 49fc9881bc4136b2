"""What the rows that 0003 has converted need no more, and what holds of them from now on."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("story_sessions", "0004_attempts")]

    operations = [
        migrations.AlterModelOptions("event", {"ordering": ["prompt_index", "position"]}),
        migrations.RemoveIndex("event", "event_order"),
        migrations.AlterField(
            "event",
            "attempt",
            models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="events",
                to="story_sessions.attempt",
            ),
        ),
        migrations.AlterField("event", "position", models.PositiveSmallIntegerField()),
        migrations.AddConstraint(
            "event",
            models.UniqueConstraint(fields=("attempt", "position"), name="one_event_per_position"),
        ),
        migrations.AddIndex(
            "event",
            models.Index(fields=["session", "prompt_index", "position"], name="event_order"),
        ),
        migrations.RemoveField("session", "rerolling_prompt_index"),
        migrations.RemoveField("attempt", "prompt_index"),
        migrations.AddConstraint(
            "attempt",
            models.UniqueConstraint(
                fields=("session", "submission_key"), name="one_attempt_per_submission"
            ),
        ),
        migrations.AddIndex(
            "attempt", models.Index(fields=["status", "lease_until"], name="attempt_lease")
        ),
        migrations.AddIndex(
            "attempt", models.Index(fields=["session", "status"], name="attempt_pending")
        ),
        migrations.AddIndex(
            "attempt", models.Index(fields=["session", "submitted_at"], name="attempt_newest")
        ),
    ]
