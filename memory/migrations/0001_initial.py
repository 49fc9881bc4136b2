import uuid

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("story_sessions", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="NarrativeDraft",
            fields=[
                (
                    "draft_id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("is_edited", models.BooleanField(default=False)),
                ("kept_receipts", models.JSONField(blank=True, default=list)),
                ("job_id", models.UUIDField(blank=True, null=True)),
                ("narrative_agent_definition_text", models.TextField(blank=True)),
                ("target_words", models.PositiveIntegerField()),
                ("source_snapshot", models.JSONField()),
                ("chapter_text", models.TextField()),
                ("scenes", models.JSONField(blank=True, default=list)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "attempt",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="story_sessions.attempt",
                    ),
                ),
                (
                    "origin",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="memory.narrativedraft",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="narrative_drafts",
                        to="story_sessions.session",
                    ),
                ),
            ],
            options={
                "ordering": ["created_at"],
            },
        ),
        migrations.CreateModel(
            name="DraftChoice",
            fields=[
                (
                    "session",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="draft_choice",
                        serialize=False,
                        to="story_sessions.session",
                    ),
                ),
                ("chosen_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "draft",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="memory.narrativedraft",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="MemoryBlock",
            fields=[
                (
                    "block_id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("type", models.CharField(max_length=40)),
                ("from_prompt_index", models.PositiveIntegerField()),
                ("to_prompt_index", models.PositiveIntegerField()),
                ("told_until", models.PositiveIntegerField(blank=True, null=True)),
                ("audience", models.JSONField(blank=True, null=True)),
                ("json_payload", models.JSONField()),
                ("came_with_starter", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "attempt",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memory_blocks",
                        to="story_sessions.attempt",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memory_blocks",
                        to="story_sessions.session",
                    ),
                ),
            ],
            options={
                "ordering": ["created_at"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("type", "world_chapter_lock")),
                        fields=("session",),
                        name="one_lock_per_chapter",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("type", "turn_delta")),
                        fields=("attempt", "from_prompt_index", "audience"),
                        name="one_delta_per_audience",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="WorkingCopy",
            fields=[
                (
                    "draft",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="working_copy",
                        serialize=False,
                        to="memory.narrativedraft",
                    ),
                ),
                ("text", models.TextField()),
                ("saved_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="working_copies",
                        to="story_sessions.session",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "working copies",
                "ordering": ["saved_at"],
            },
        ),
    ]
