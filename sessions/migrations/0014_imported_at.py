from django.db import migrations, models


class Migration(migrations.Migration):
    """When a chapter was imported; of those that are here already nobody knows."""

    dependencies = [("story_sessions", "0013_given_apart_from_trials")]

    operations = [
        migrations.AddField(
            model_name="session",
            name="imported_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
    ]
