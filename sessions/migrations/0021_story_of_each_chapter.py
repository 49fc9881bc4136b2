import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Apart from 0020, because PostgreSQL changes no table whose rows were changed in the same
    transaction."""

    dependencies = [("story_sessions", "0020_stories")]

    operations = [
        migrations.AlterField(
            model_name="session",
            name="story",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="chapters",
                to="story_sessions.story",
            ),
        ),
        migrations.AddConstraint(
            model_name="session",
            constraint=models.UniqueConstraint(
                condition=models.Q(("deleted_at", None), ("is_chosen", True)),
                fields=("story", "place"),
                name="one_chosen_chapter_per_place",
            ),
        ),
    ]
