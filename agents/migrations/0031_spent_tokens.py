from collections.abc import Iterator
from typing import Any

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import IntegerField, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce

_BATCH = 1_000


def sum_up(apps: Any, _editor: Any) -> None:
    """Store what the calls of each chapter have used so far."""
    spent = apps.get_model("agents", "SpentTokens")
    spent.objects.bulk_create(
        (spent(**sums) for sums in _sums(apps) if any(sums[name] for name in _FIGURES)),
        batch_size=_BATCH,
    )


def _sums(apps: Any) -> Iterator[dict[str, Any]]:
    calls = apps.get_model("agents", "LLMArtifact").objects.order_by()
    return calls.values("session_id", "provider", "model").annotate(**_FIGURES).iterator(_BATCH)


def _reported(kind: str) -> Coalesce:
    return Coalesce(Sum(Cast(KeyTextTransform(kind, "token_counts"), IntegerField())), 0)


_FIGURES = {
    "read": _reported("input"),
    "cached": _reported("cached"),
    "written": _reported("output"),
    "guessed_read": Coalesce(Sum("estimated_input"), 0),
    "guessed_written": Coalesce(Sum("estimated_output"), 0),
}


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0030_process_heartbeats"),
        ("story_sessions", "0029_running_attempts"),
    ]

    operations = [
        migrations.CreateModel(
            name="SpentTokens",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("provider", models.CharField(max_length=40)),
                ("model", models.CharField(max_length=200)),
                ("read", models.BigIntegerField(default=0)),
                ("cached", models.BigIntegerField(default=0)),
                ("written", models.BigIntegerField(default=0)),
                ("guessed_read", models.BigIntegerField(default=0)),
                ("guessed_written", models.BigIntegerField(default=0)),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="spent_tokens",
                        to="story_sessions.session",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "spent tokens",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("session", "provider", "model"), name="one_sum_per_model"
                    )
                ],
            },
        ),
        migrations.RunPython(sum_up, migrations.RunPython.noop),
        migrations.RemoveIndex("LLMArtifact", "artifact_spending"),
        migrations.AddField(
            "AdmittedCall", "provider", models.CharField(blank=True, default="", max_length=40)
        ),
        migrations.AddField(
            "AdmittedCall", "model", models.CharField(blank=True, default="", max_length=200)
        ),
        migrations.AddField("AdmittedCall", "reserved_read", models.PositiveIntegerField(default=0)),
        migrations.AddField(
            "AdmittedCall", "reserved_written", models.PositiveIntegerField(default=0)
        ),
        migrations.AddField(
            "AdmittedCall", "reserved_until", models.DateTimeField(blank=True, null=True)
        ),
        migrations.AddIndex(
            "AdmittedCall",
            models.Index(
                fields=["session_id"],
                condition=models.Q(reserved_until__isnull=False),
                name="admitted_call_reserved",
            ),
        ),
    ]
