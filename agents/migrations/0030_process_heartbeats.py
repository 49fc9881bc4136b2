from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0029_room_for_renewals")]

    operations = [
        migrations.RenameModel("WorkerHeartbeat", "ProcessHeartbeat"),
        migrations.AddField(
            "ProcessHeartbeat",
            "role",
            models.CharField(
                choices=[("web", "Web"), ("worker", "Worker")], default="worker", max_length=10
            ),
        ),
        migrations.AddField(
            "ProcessHeartbeat",
            "key_fingerprint",
            models.CharField(blank=True, default="", max_length=16),
        ),
        migrations.AddField(
            "ProcessHeartbeat", "most_connections", models.PositiveIntegerField(default=0)
        ),
    ]
