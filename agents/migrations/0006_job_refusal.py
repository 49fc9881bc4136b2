from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0005_calibration_by_agent"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="refusal",
            field=models.CharField(blank=True, max_length=40),
        ),
    ]
