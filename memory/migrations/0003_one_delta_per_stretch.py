from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("memory", "0002_attempts")]

    operations = [
        migrations.RemoveConstraint("memoryblock", "one_delta_per_chunk"),
        migrations.AddConstraint(
            "memoryblock",
            models.UniqueConstraint(
                fields=("attempt", "from_prompt_index"),
                condition=Q(type="turn_delta"),
                name="one_delta_per_stretch",
            ),
        ),
    ]
