from django.db import migrations, models


class Migration(migrations.Migration):
    """The deltas of a stretch are read in the order of the last prompts that they tell. Deltas that
    are stored already keep their order."""

    dependencies = [("memory", "0005_open_block_kinds")]

    operations = [
        migrations.AddField(
            "memoryblock", "told_until", models.PositiveIntegerField(blank=True, null=True)
        ),
    ]
