import uuid

import django.db.models.deletion
import django.utils.timezone
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def leave_room(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Let PostgreSQL keep a part of each page free for the next version of a row, so that the
    renewal of a job's lease or of a heartbeat changes no index."""
    if schema_editor.connection.vendor == "postgresql":
        for name in ("Job", "ProcessHeartbeat"):
            table = apps.get_model("agents", name)._meta.db_table
            schema_editor.execute(f"ALTER TABLE {table} SET (fillfactor = 70)")


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("story_sessions", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="EmbeddedServer",
            fields=[
                (
                    "name",
                    models.CharField(
                        default="default", max_length=20, primary_key=True, serialize=False
                    ),
                ),
                (
                    "phase",
                    models.CharField(
                        choices=[
                            ("fetching", "Fetching"),
                            ("loading", "Loading"),
                            ("ready", "Ready"),
                            ("failed", "Failed"),
                        ],
                        max_length=10,
                    ),
                ),
                ("model", models.CharField(max_length=200)),
                ("base_url", models.CharField(blank=True, max_length=200)),
                ("context_window", models.PositiveIntegerField(default=0)),
                ("bytes_done", models.BigIntegerField(default=0)),
                ("bytes_total", models.BigIntegerField(default=0)),
                ("message", models.TextField(blank=True)),
                ("alive_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.CreateModel(
            name="ModelServer",
            fields=[
                ("name", models.SlugField(max_length=40, primary_key=True, serialize=False)),
                ("title", models.CharField(max_length=60)),
                ("address", models.CharField(max_length=500)),
                ("is_removed", models.BooleanField(default=False)),
                ("added_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.CreateModel(
            name="ProcessHeartbeat",
            fields=[
                ("name", models.CharField(max_length=200, primary_key=True, serialize=False)),
                (
                    "role",
                    models.CharField(
                        choices=[("web", "Web"), ("worker", "Worker")],
                        default="worker",
                        max_length=10,
                    ),
                ),
                ("beat_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("counts", models.JSONField(default=dict)),
                ("key_fingerprint", models.CharField(blank=True, default="", max_length=16)),
                ("most_connections", models.PositiveIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="ProviderConsent",
            fields=[
                ("host", models.CharField(max_length=253, primary_key=True, serialize=False)),
                ("granted_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.CreateModel(
            name="SpendingCap",
            fields=[
                (
                    "name",
                    models.CharField(
                        default="default", max_length=20, primary_key=True, serialize=False
                    ),
                ),
                (
                    "dollars",
                    models.DecimalField(blank=True, decimal_places=2, max_digits=12, null=True),
                ),
                ("tokens", models.BigIntegerField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="SweepLease",
            fields=[
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
        migrations.CreateModel(
            name="AdmittedCall",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("session_id", models.UUIDField()),
                ("admitted_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("provider", models.CharField(blank=True, default="", max_length=40)),
                ("model", models.CharField(blank=True, default="", max_length=200)),
                ("reserved_read", models.PositiveIntegerField(default=0)),
                ("reserved_written", models.PositiveIntegerField(default=0)),
                ("reserved_until", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["admitted_at", "session_id"], name="admitted_call_counted"
                    ),
                    models.Index(
                        condition=models.Q(("reserved_until__isnull", False)),
                        fields=["session_id"],
                        name="admitted_call_reserved",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                (
                    "job_id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("kind", models.CharField(max_length=40)),
                ("key", models.CharField(max_length=100)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("done", "Done"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                            ("void", "Void"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                (
                    "queue",
                    models.CharField(
                        choices=[("person", "Person"), ("memory", "Memory"), ("long", "Long")],
                        default="memory",
                        max_length=10,
                    ),
                ),
                ("from_prompt_index", models.PositiveIntegerField(default=0)),
                ("to_prompt_index", models.PositiveIntegerField(default=0)),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("run_after", models.DateTimeField(default=django.utils.timezone.now)),
                ("lease_token", models.UUIDField(blank=True, null=True)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("error", models.TextField(blank=True)),
                ("server_said", models.TextField(blank=True, default="")),
                ("refusal", models.CharField(blank=True, max_length=40)),
                ("failure", models.CharField(blank=True, default="", max_length=40)),
                ("end_asked_at_prompt", models.PositiveIntegerField(blank=True, null=True)),
                ("progress", models.JSONField(blank=True, default=dict)),
                ("scenes", models.JSONField(blank=True, default=list)),
                ("finished_scenes", models.JSONField(blank=True, default=list)),
                ("finished_deltas", models.JSONField(blank=True, default=list)),
                ("result_kind", models.CharField(blank=True, default="", max_length=60)),
                ("result", models.JSONField(blank=True, null=True)),
                ("partial_text", models.TextField(blank=True)),
                ("inputs", models.JSONField(blank=True, default=dict)),
                ("request_id", models.CharField(blank=True, default="", max_length=64)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("updated_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "attempt",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="jobs",
                        to="story_sessions.attempt",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="jobs",
                        to="story_sessions.session",
                    ),
                ),
            ],
            options={
                "ordering": ["created_at"],
            },
        ),
        migrations.CreateModel(
            name="LLMArtifact",
            fields=[
                (
                    "artifact_id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("step", models.PositiveSmallIntegerField(default=1)),
                ("agent", models.CharField(max_length=60)),
                ("agent_id", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("provider", models.CharField(max_length=40)),
                ("model", models.CharField(max_length=200)),
                (
                    "input_hash",
                    models.CharField(help_text="SHA-256 of the messages sent", max_length=64),
                ),
                ("token_counts", models.JSONField(default=dict)),
                ("estimated_input", models.PositiveIntegerField(default=0)),
                ("estimated_output", models.PositiveIntegerField(default=0)),
                ("sent_options", models.JSONField(blank=True, default=dict)),
                ("layers", models.JSONField(default=list)),
                (
                    "raw_output_ref",
                    models.TextField(blank=True, help_text="The reply as it was read"),
                ),
                (
                    "taken_off",
                    models.TextField(
                        blank=True,
                        default="",
                        help_text="What was taken off the answer: hidden reasoning and marks of chat templates",
                    ),
                ),
                (
                    "tool_calls",
                    models.JSONField(
                        blank=True,
                        default=list,
                        help_text="The server's own tool calls in the reply",
                    ),
                ),
                ("error", models.TextField(blank=True)),
                ("server_said", models.TextField(blank=True, default="")),
                ("first_token_ms", models.PositiveIntegerField(blank=True, null=True)),
                ("duration_ms", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "attempt",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="llm_artifacts",
                        to="story_sessions.attempt",
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="llm_artifacts",
                        to="agents.job",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="llm_artifacts",
                        to="story_sessions.session",
                    ),
                ),
            ],
            options={
                "verbose_name": "LLM artifact",
                "ordering": ["-created_at"],
            },
        ),
        migrations.CreateModel(
            name="ModelChoice",
            fields=[
                ("agent", models.CharField(max_length=100, primary_key=True, serialize=False)),
                ("builtin", models.CharField(blank=True, max_length=20)),
                ("model", models.CharField(blank=True, max_length=200)),
                (
                    "server",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="agents.modelserver",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ModelTest",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("agent", models.CharField(max_length=60)),
                ("provider", models.CharField(max_length=40)),
                ("model", models.CharField(max_length=200)),
                ("token_counts", models.JSONField(default=dict)),
                ("estimated_input", models.PositiveIntegerField(default=0)),
                ("estimated_output", models.PositiveIntegerField(default=0)),
                ("error", models.TextField(blank=True)),
                ("server_said", models.TextField(blank=True, default="")),
                ("duration_ms", models.PositiveIntegerField(default=0)),
                (
                    "tested_at",
                    models.DateTimeField(db_index=True, default=django.utils.timezone.now),
                ),
                (
                    "session",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="story_sessions.session",
                    ),
                ),
            ],
            options={
                "ordering": ["-tested_at"],
            },
        ),
        migrations.CreateModel(
            name="PromptText",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "hash",
                    models.CharField(help_text="As the layers of artifacts name it", max_length=20),
                ),
                ("text", models.TextField()),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="prompt_texts",
                        to="story_sessions.session",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RefusedField",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("server", models.CharField(help_text="Its address", max_length=200)),
                ("model", models.CharField(max_length=200)),
                ("field", models.CharField(max_length=40)),
                ("refused_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("server", "model", "field"), name="one_refusal_each"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ReportedWindow",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("server", models.CharField(help_text="Its address", max_length=200)),
                ("model", models.CharField(max_length=200)),
                ("tokens", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "is_ceiling",
                    models.BooleanField(
                        default=False,
                        help_text="The most the model can take; the server may run it with less",
                    ),
                ),
                ("asked_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("server", "model"), name="one_window_per_model")
                ],
            },
        ),
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
            },
        ),
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
                ("agent", models.CharField(max_length=60)),
                ("weight", models.FloatField(default=0)),
                ("tokens", models.FloatField(default=0)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("model", "agent"), name="one_calibration_per_agent"
                    )
                ],
            },
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["status", "queue", "run_after"], name="job_due_in_queue"),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.UniqueConstraint(
                fields=("session", "kind", "key"), name="one_job_per_key"
            ),
        ),
        migrations.AddIndex(
            model_name="llmartifact",
            index=models.Index(fields=["created_at"], name="artifact_created"),
        ),
        migrations.AddConstraint(
            model_name="prompttext",
            constraint=models.UniqueConstraint(
                fields=("session", "hash"), name="one_text_per_hash"
            ),
        ),
        migrations.AddConstraint(
            model_name="spenttokens",
            constraint=models.UniqueConstraint(
                fields=("session", "provider", "model"), name="one_sum_per_model"
            ),
        ),
        migrations.RunPython(leave_room, migrations.RunPython.noop),
    ]
