import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0013_attempts_only"), ("story_sessions", "0004_attempts")]

    operations = [
        migrations.CreateModel(
            name="PromptText",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "hash",
                    models.CharField(
                        help_text="As the layers of artifacts name it", max_length=20
                    ),
                ),
                ("text", models.TextField()),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="prompt_texts",
                        to="story_sessions.session",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("session", "hash"), name="one_text_per_hash"
                    )
                ],
            },
        ),
    ]
