import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("story_sessions", "0021_story_of_each_chapter")]

    operations = [
        migrations.AddField(
            model_name="castmember",
            name="origin",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="story_sessions.castmember",
            ),
        ),
    ]
