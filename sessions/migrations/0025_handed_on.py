from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("story_sessions", "0024_fill_chapter_before")]

    operations = [
        migrations.AddField(
            model_name="tab1inputs",
            name="handed_on",
            field=models.JSONField(blank=True, default=dict),
        ),
    ]
