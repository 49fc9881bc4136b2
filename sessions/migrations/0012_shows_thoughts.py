from django.db import migrations, models


class Migration(migrations.Migration):
    """Tab 2 shows thoughts when it is asked; so far nobody has."""

    dependencies = [("story_sessions", "0011_mode_setup")]

    operations = [
        migrations.AddField(
            model_name="session",
            name="shows_thoughts",
            field=models.BooleanField(default=False),
        ),
    ]
