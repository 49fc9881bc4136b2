from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0020_results")]

    operations = [
        migrations.AlterField(
            "job",
            "status",
            models.CharField(
                choices=[
                    ("queued", "Queued"),
                    ("running", "Running"),
                    ("done", "Done"),
                    ("failed", "Failed"),
                    ("cancelled", "Cancelled"),
                    ("void", "Void"),
                ],
                default="queued",
                max_length=10,
            ),
        ),
    ]
