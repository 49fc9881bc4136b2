from django.db import migrations, models


class Migration(migrations.Migration):
    """What was learnt is let go: the next calls teach it anew, for each agent."""

    dependencies = [
        ("agents", "0004_reportedwindow"),
    ]

    operations = [
        migrations.DeleteModel(name="TokenCalibration"),
        migrations.CreateModel(
            name="TokenCalibration",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("model", models.CharField(max_length=200)),
                ("agent_id", models.PositiveSmallIntegerField()),
                ("weight", models.FloatField(default=0)),
                ("tokens", models.FloatField(default=0)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("model", "agent_id"), name="one_calibration_per_agent"
                    )
                ],
            },
        ),
    ]
