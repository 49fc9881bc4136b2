from django.db import migrations, models


class Migration(migrations.Migration):
    """Calls that were made before count as they did: their estimates are not made up afterwards."""

    dependencies = [
        ("agents", "0006_job_refusal"),
    ]

    operations = [
        migrations.AddField(
            model_name="llmartifact",
            name="estimated_input",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="llmartifact",
            name="estimated_output",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddIndex(
            model_name="llmartifact",
            index=models.Index(
                fields=["session", "model", "token_counts", "estimated_input", "estimated_output"],
                name="artifact_spending",
            ),
        ),
    ]
