from django.db import migrations, models


class Migration(migrations.Migration):
    """A way to play has kinds of job of its own."""

    dependencies = [("agents", "0018_agent_names")]

    operations = [
        migrations.AlterField(
            model_name="job", name="kind", field=models.CharField(max_length=40)
        ),
    ]
