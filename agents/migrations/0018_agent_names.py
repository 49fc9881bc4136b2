"""An agent has a name; of those that have none of the specification's numbers, it says who called."""

from django.db import migrations, models
from django.db.models import Case, Sum, Value, When

NAMES = {0: "world_lock", **dict.fromkeys(range(1, 8), "character"), 8: "memory", 9: "narrator"}


def name_agents(apps, schema_editor):
    whens = [When(agent_id=number, then=Value(name)) for number, name in NAMES.items()]
    name = Case(*whens, default=Value("unknown"))
    for model in ("LLMArtifact", "TokenCalibration"):
        apps.get_model("agents", model).objects.update(agent=name)
    # What was learnt of each character by itself holds for all of them.
    learnt = apps.get_model("agents", "TokenCalibration").objects.all()
    sums = learnt.order_by().values("model", "agent").annotate(Sum("weight"), Sum("tokens"))
    # Numbered for the constraint that goes with the number.
    together = [
        learnt.model(
            model=one["model"],
            agent=one["agent"],
            agent_id=number,
            weight=one["weight__sum"],
            tokens=one["tokens__sum"],
        )
        for number, one in enumerate(sums)
    ]
    learnt.delete()
    learnt.model.objects.bulk_create(together)


class Migration(migrations.Migration):
    dependencies = [("agents", "0017_job_finished_deltas")]

    operations = [
        *(
            migrations.AddField(
                model_name=model,
                name="agent",
                field=models.CharField(default="", max_length=60),
                preserve_default=False,
            )
            for model in ("llmartifact", "tokencalibration")
        ),
        migrations.AlterField(
            model_name="llmartifact",
            name="agent_id",
            field=models.PositiveSmallIntegerField(blank=True, null=True),
        ),
        migrations.RunPython(name_agents, migrations.RunPython.noop),
        migrations.RemoveConstraint(
            model_name="tokencalibration", name="one_calibration_per_agent"
        ),
        migrations.RemoveField(model_name="tokencalibration", name="agent_id"),
        migrations.AddConstraint(
            model_name="tokencalibration",
            constraint=models.UniqueConstraint(
                fields=("model", "agent"), name="one_calibration_per_agent"
            ),
        ),
    ]
