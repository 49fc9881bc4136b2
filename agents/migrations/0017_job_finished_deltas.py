from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0016_tool_steps")]

    operations = [
        migrations.AddField(
            "job", "finished_deltas", models.JSONField(blank=True, default=list)
        ),
    ]
