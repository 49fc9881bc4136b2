from typing import Any

from django.db import migrations, models

# What stood between the sentence of the program and the words of the server.
_SAYS = " It says: “"


def split_errors(apps: Any, _editor: Any) -> None:
    """Move the words of servers out of the errors of calls and tests, and put those of the latest
    call beside the failure of its attempt or job."""
    for name in ("LLMArtifact", "ModelTest"):
        rows = apps.get_model("agents", name).objects
        with_words = rows.filter(error__contains=_SAYS).order_by()
        for pk, error in list(with_words.values_list("pk", "error")):
            ours, _, said = error.partition(_SAYS)
            rows.filter(pk=pk).update(error=ours, server_said=said.removesuffix("”"))
    for app, name, column in (
        ("story_sessions", "Attempt", "attempt_id"),
        ("agents", "Job", "job_id"),
    ):
        _put_beside(apps, apps.get_model(app, name).objects, column)


def _put_beside(apps: Any, failed: Any, column: str) -> None:
    calls = apps.get_model("agents", "LLMArtifact").objects
    with_words = calls.exclude(server_said="").exclude(**{column: None}).order_by()
    for key in list(with_words.values_list(column, flat=True).distinct()):
        latest = calls.filter(**{column: key}).order_by("-created_at").first()
        # A later failure without a call has another sentence.
        if latest.server_said and latest.error:
            beside = failed.filter(pk=key, error__startswith=latest.error)
            beside.update(server_said=latest.server_said)


def join_errors(apps: Any, _editor: Any) -> None:
    """Put the words of servers back behind the errors of calls and tests, where the program read
    them before."""
    for name in ("LLMArtifact", "ModelTest"):
        rows = apps.get_model("agents", name).objects
        with_words = rows.exclude(server_said="").order_by()
        for pk, ours, said in list(with_words.values_list("pk", "error", "server_said")):
            rows.filter(pk=pk).update(error=f"{ours}{_SAYS}{said}\u201d")


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0032_queues"),
        ("story_sessions", "0034_server_said"),
    ]

    operations = [
        *(
            migrations.AddField(
                model_name=name,
                name="server_said",
                field=models.TextField(blank=True, default=""),
            )
            for name in ("job", "llmartifact", "modeltest")
        ),
        migrations.RunPython(split_errors, join_errors),
    ]
