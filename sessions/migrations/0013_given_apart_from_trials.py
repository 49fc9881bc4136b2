from typing import Any

from django.db import migrations, models


def keep_trials_alone(apps: Any, schema_editor: Any) -> None:
    """Empty the field of attempts that are no trials: no way to play has declared what it holds."""
    attempts = apps.get_model("story_sessions", "Attempt").objects.exclude(kind="trial")
    attempts.filter(changed_layer__isnull=False).update(changed_layer=None)


class Migration(migrations.Migration):
    """What a trial changed gets a field of its own, and `given` is what a prompt carries."""

    dependencies = [
        ("story_sessions", "0012_shows_thoughts"),
        # Older trials were jobs, which this one makes attempts with the field as it was named.
        ("agents", "0012_attempts"),
    ]

    operations = [
        migrations.RenameField("attempt", "given", "changed_layer"),
        migrations.AddField("attempt", "given", models.JSONField(blank=True, null=True)),
        migrations.RunPython(keep_trials_alone, migrations.RunPython.noop),
    ]
