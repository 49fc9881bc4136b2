from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0021_void_results")]

    operations = [
        migrations.AddField(
            "job", "failure", models.CharField(blank=True, default="", max_length=40)
        ),
    ]
