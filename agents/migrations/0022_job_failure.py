import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0021_void_results")]

    operations = [
        migrations.AlterField(
            "job", "updated_at", models.DateTimeField(default=django.utils.timezone.now)
        ),
        migrations.AddField(
            "job", "failure", models.CharField(blank=True, default="", max_length=40)
        ),
    ]
