import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("story_sessions", "0022_origins_of_people")]

    operations = [
        migrations.AddField(
            model_name="session",
            name="follows",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="story_sessions.session",
            ),
        ),
        migrations.AddField(
            model_name="session",
            name="followed_state",
            field=models.JSONField(blank=True, editable=False, null=True),
        ),
    ]
