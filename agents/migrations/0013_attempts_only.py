from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0012_attempts")]

    operations = [
        migrations.RemoveField("job", "result_text"),
        migrations.AlterField(
            "job",
            "kind",
            models.CharField(
                choices=[("lock", "Lock"), ("summarize", "Summarize"), ("narrate", "Narrate")],
                max_length=10,
            ),
        ),
    ]
