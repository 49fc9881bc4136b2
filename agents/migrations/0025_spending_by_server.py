from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0024_model_servers_and_choices")]

    operations = [
        migrations.RemoveIndex(model_name="llmartifact", name="artifact_spending"),
        migrations.AddIndex(
            model_name="llmartifact",
            index=models.Index(
                fields=[
                    "session",
                    "model",
                    "provider",
                    "token_counts",
                    "estimated_input",
                    "estimated_output",
                ],
                name="artifact_spending",
            ),
        ),
    ]
