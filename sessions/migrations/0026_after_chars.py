from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("story_sessions", "0025_handed_on")]

    operations = [
        migrations.AddField(
            model_name="change",
            name="after_chars",
            field=models.PositiveIntegerField(default=0),
        ),
    ]
