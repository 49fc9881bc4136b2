from django.db import migrations, models


class Migration(migrations.Migration):
    """A way to play can add to Tab 1; in chapters that are there, none has."""

    dependencies = [("story_sessions", "0010_changes")]

    operations = [
        migrations.AddField(
            model_name="tab1inputs",
            name="mode_setup",
            field=models.JSONField(blank=True, default=dict),
        ),
    ]
