import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("story_sessions", "0007_differs_by_reader")]

    operations = [
        migrations.AddField(
            "session",
            "origin",
            models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="forks",
                to="story_sessions.session",
            ),
        ),
        migrations.AddField(
            "session", "origin_title", models.CharField(blank=True, max_length=120)
        ),
        migrations.AddField("session", "forked_at_prompt", models.PositiveIntegerField(default=0)),
        migrations.AddField("session", "fork_key", models.CharField(blank=True, max_length=100)),
        migrations.AddField(
            "session", "inherited_usage", models.JSONField(blank=True, default=dict)
        ),
        migrations.AddConstraint(
            "session",
            models.UniqueConstraint(
                fields=["origin", "fork_key"], name="one_fork_per_submission"
            ),
        ),
    ]
