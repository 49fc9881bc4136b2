from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("story_sessions", "0001_initial")]

    operations = [
        migrations.AddIndex(
            model_name="turn",
            index=models.Index(fields=["session", "status"], name="turn_pending"),
        ),
        migrations.AddIndex(
            model_name="turn",
            index=models.Index(fields=["session", "submitted_at"], name="turn_newest"),
        ),
    ]
