from django.db import migrations, models


class Migration(migrations.Migration):
    """A chapter has a way in which it is played; an attempt has a writer, who need be no character."""

    dependencies = [("story_sessions", "0008_forks")]

    operations = [
        migrations.AddField(
            model_name="session",
            name="mode",
            field=models.CharField(default="gamemaster", max_length=30),
        ),
        migrations.AddField(
            model_name="attempt",
            name="agent",
            field=models.CharField(default="character", max_length=60),
        ),
        migrations.AlterField(
            model_name="attempt",
            name="actor",
            field=models.PositiveSmallIntegerField(blank=True, null=True),
        ),
    ]
