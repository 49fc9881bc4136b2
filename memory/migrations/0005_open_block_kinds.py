from django.db import migrations, models


class Migration(migrations.Migration):
    """Ways to play can declare kinds of memory block."""

    dependencies = [("memory", "0004_audiences")]

    operations = [
        migrations.AlterField("memoryblock", "type", models.CharField(max_length=40)),
    ]
