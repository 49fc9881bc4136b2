from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0019_open_job_kinds")]

    operations = [
        migrations.AddField(
            "job", "result_kind", models.CharField(blank=True, default="", max_length=60)
        ),
        migrations.AddField("job", "result", models.JSONField(blank=True, null=True)),
    ]
