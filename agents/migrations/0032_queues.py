from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

_QUEUES = {"lock": "person", "go_on": "person", "narrate": "long"}


def sort_unfinished(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Put each job that waits or is running in the queue of its kind."""
    unfinished = apps.get_model("agents", "Job").objects.filter(status__in=("queued", "running"))
    for kind, queue in _QUEUES.items():
        unfinished.filter(kind=kind).update(queue=queue)


class Migration(migrations.Migration):
    dependencies = [("agents", "0031_spent_tokens")]

    operations = [
        migrations.AddField(
            "Job",
            "queue",
            models.CharField(
                choices=[("person", "Person"), ("memory", "Memory"), ("long", "Long")],
                default="memory",
                max_length=10,
            ),
        ),
        migrations.RemoveIndex("Job", "job_due"),
        migrations.AddIndex(
            "Job",
            models.Index(fields=["status", "queue", "run_after"], name="job_due_in_queue"),
        ),
        migrations.CreateModel(
            "SweepLease",
            [
                (
                    "name",
                    models.CharField(
                        default="sweep", max_length=20, primary_key=True, serialize=False
                    ),
                ),
                ("holder", models.CharField(max_length=200)),
                ("lease_until", models.DateTimeField()),
            ],
        ),
        # The rows are changed last, because PostgreSQL may refuse to change a table after that.
        migrations.RunPython(sort_unfinished, migrations.RunPython.noop),
    ]
