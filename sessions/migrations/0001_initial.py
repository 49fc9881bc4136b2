import uuid

import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def leave_room(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Let PostgreSQL keep a part of each page free for the next version of a row, so that the
    renewal of an attempt's lease changes no index."""
    if schema_editor.connection.vendor == "postgresql":
        table = apps.get_model("story_sessions", "Attempt")._meta.db_table
        schema_editor.execute(f"ALTER TABLE {table} SET (fillfactor = 70)")


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Event",
            fields=[
                (
                    "event_id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("prompt_index", models.PositiveIntegerField()),
                ("position", models.PositiveSmallIntegerField()),
                (
                    "role",
                    models.CharField(
                        choices=[("user", "User"), ("agent", "Agent"), ("system", "System")],
                        max_length=8,
                    ),
                ),
                ("kind", models.CharField(default="said", max_length=40)),
                ("agent_slot", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("text", models.TextField()),
                ("shown", models.JSONField(blank=True, null=True)),
                ("witnesses", models.JSONField(default=list)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "ordering": ["prompt_index", "position"],
            },
        ),
        migrations.CreateModel(
            name="Session",
            fields=[
                (
                    "session_id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("title", models.CharField(default="Untitled chapter", max_length=120)),
                ("place", models.PositiveIntegerField(default=1)),
                ("is_chosen", models.BooleanField(default=True)),
                ("deleted_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("followed_state", models.JSONField(blank=True, editable=False, null=True)),
                ("mode", models.CharField(default="gamemaster", max_length=30)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("IMPORTING", "Being imported"),
                            ("DRAFT_TAB1", "Setting up"),
                            ("LOCKING", "Locking"),
                            ("ACTIVE", "In play"),
                            ("SUMMARIZING", "Writing memory"),
                            ("ENDED", "Ended"),
                            ("NARRATING", "Writing the chapter"),
                            ("RESETTING", "Resetting"),
                        ],
                        default="DRAFT_TAB1",
                        max_length=16,
                    ),
                ),
                ("starter", models.CharField(blank=True, default="", max_length=60)),
                ("prompt_index", models.PositiveIntegerField(default=0)),
                ("last_summarized_prompt_index", models.PositiveIntegerField(default=0)),
                ("tab1_locked", models.BooleanField(default=False)),
                ("chunk_size_prompts", models.PositiveSmallIntegerField(default=7)),
                ("is_ending", models.BooleanField(default=False)),
                ("accepted_calls", models.PositiveIntegerField(default=0)),
                ("turn_in_flight", models.UUIDField(blank=True, null=True)),
                ("shows_all_replies", models.BooleanField(default=False)),
                ("shows_thoughts", models.BooleanField(default=False)),
                ("differs_by_reader", models.BooleanField(default=False)),
                ("seed", models.UUIDField(default=uuid.uuid4, editable=False)),
                ("next_agent_slot", models.PositiveSmallIntegerField(default=1)),
                (
                    "reply_length",
                    models.CharField(
                        choices=[("short", "Short"), ("normal", "Normal"), ("long", "Long")],
                        default="normal",
                        max_length=6,
                    ),
                ),
                ("language", models.CharField(blank=True, default="", max_length=35)),
                ("found_language", models.CharField(blank=True, default="", max_length=35)),
                ("model_settings", models.JSONField(blank=True, default=dict)),
                ("narrative_agent_definition_text", models.TextField(blank=True)),
                ("target_words", models.PositiveIntegerField(default=2500)),
                (
                    "created_at",
                    models.DateTimeField(default=django.utils.timezone.now, editable=False),
                ),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("last_played_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("imported_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("origin_title", models.CharField(blank=True, max_length=120)),
                ("forked_at_prompt", models.PositiveIntegerField(default=0)),
                ("fork_key", models.CharField(blank=True, max_length=100)),
                ("inherited_usage", models.JSONField(blank=True, default=dict)),
                (
                    "follows",
                    models.ForeignKey(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="story_sessions.session",
                    ),
                ),
                (
                    "origin",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="forks",
                        to="story_sessions.session",
                    ),
                ),
            ],
            options={
                "verbose_name": "chapter",
                "ordering": ["-last_played_at"],
            },
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                (
                    "attempt_id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("submission_key", models.CharField(max_length=100)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("prompt", "Prompt"),
                            ("reroll", "Reroll"),
                            ("trial", "Trial"),
                            ("edit", "Edit"),
                        ],
                        default="prompt",
                        max_length=8,
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("running", "Running"),
                            ("committed", "Committed"),
                            ("failed", "Failed"),
                            ("stopped", "Stopped"),
                            ("set_aside", "Set Aside"),
                        ],
                        default="running",
                        max_length=10,
                    ),
                ),
                ("actor", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("agent", models.CharField(default="character", max_length=60)),
                ("words", models.TextField()),
                ("given", models.JSONField(blank=True, null=True)),
                ("kept_setup", models.JSONField(blank=True, null=True)),
                ("came_with_starter", models.BooleanField(default=False)),
                ("changed_layer", models.JSONField(blank=True, null=True)),
                ("witnesses", models.JSONField(blank=True, null=True)),
                ("partial_text", models.TextField(blank=True)),
                ("text_run_id", models.UUIDField(blank=True, null=True)),
                ("error", models.TextField(blank=True)),
                ("server_said", models.TextField(blank=True, default="")),
                ("ended_before", models.CharField(blank=True, default="", max_length=60)),
                ("was_cut", models.BooleanField(default=False)),
                ("run_id", models.UUIDField(default=uuid.uuid4)),
                ("lease_until", models.DateTimeField()),
                ("submitted_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("committed_at", models.DateTimeField(blank=True, null=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "source",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="story_sessions.attempt",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="attempts",
                        to="story_sessions.session",
                    ),
                ),
            ],
            options={
                "ordering": ["-submitted_at"],
            },
        ),
        migrations.CreateModel(
            name="EventTerms",
            fields=[
                (
                    "event",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="terms",
                        serialize=False,
                        to="story_sessions.event",
                    ),
                ),
                ("language", models.CharField(max_length=20)),
                ("length", models.PositiveIntegerField()),
                ("counts", models.JSONField(default=dict)),
            ],
            options={
                "verbose_name_plural": "event terms",
            },
        ),
        migrations.AddField(
            model_name="event",
            name="attempt",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="events",
                to="story_sessions.attempt",
            ),
        ),
        migrations.CreateModel(
            name="Tab1Inputs",
            fields=[
                (
                    "session",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="tab1",
                        serialize=False,
                        to="story_sessions.session",
                    ),
                ),
                ("world_text", models.TextField(blank=True)),
                ("chapter_text", models.TextField(blank=True)),
                ("mode_setup", models.JSONField(blank=True, default=dict)),
                ("handed_on", models.JSONField(blank=True, default=dict)),
                ("saved_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "verbose_name": "Tab 1 inputs",
                "verbose_name_plural": "Tab 1 inputs",
            },
        ),
        migrations.AddField(
            model_name="event",
            name="session",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="events",
                to="story_sessions.session",
            ),
        ),
        migrations.CreateModel(
            name="Change",
            fields=[
                (
                    "change_id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("run_id", models.UUIDField(blank=True, null=True)),
                ("position", models.PositiveIntegerField()),
                ("kind", models.CharField(max_length=60)),
                ("payload", models.JSONField(default=dict)),
                ("cause", models.CharField(blank=True, max_length=60)),
                ("result", models.UUIDField(blank=True, null=True)),
                ("step", models.PositiveSmallIntegerField(default=0)),
                ("after_chars", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "attempt",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="changes",
                        to="story_sessions.attempt",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="changes",
                        to="story_sessions.session",
                    ),
                ),
            ],
            options={
                "ordering": ["position"],
            },
        ),
        migrations.CreateModel(
            name="CastMember",
            fields=[
                (
                    "member_id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("slot", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("is_selected", models.BooleanField(default=True)),
                ("name", models.CharField(blank=True, max_length=60)),
                ("pronouns", models.CharField(blank=True, max_length=40)),
                ("public_text", models.CharField(blank=True, max_length=200)),
                ("identity_text", models.TextField(blank=True)),
                (
                    "origin",
                    models.ForeignKey(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="story_sessions.castmember",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="members",
                        to="story_sessions.session",
                    ),
                ),
            ],
            options={
                "ordering": [models.OrderBy(models.F("slot"), nulls_last=True), "member_id"],
            },
        ),
        migrations.CreateModel(
            name="Story",
            fields=[
                (
                    "story_id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("title", models.CharField(blank=True, max_length=120)),
                (
                    "created_at",
                    models.DateTimeField(default=django.utils.timezone.now, editable=False),
                ),
                ("archived_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "verbose_name_plural": "stories",
                "indexes": [
                    models.Index(
                        models.OrderBy(models.F("created_at"), descending=True),
                        models.F("story_id"),
                        name="story_begun",
                    ),
                    models.Index(
                        condition=models.Q(("archived_at__isnull", False)),
                        fields=["archived_at"],
                        name="story_archived",
                    ),
                    models.Index(
                        django.db.models.functions.text.Lower("title"),
                        models.F("story_id"),
                        condition=models.Q(("title", ""), _negated=True),
                        name="story_title",
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="session",
            name="story",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="chapters",
                to="story_sessions.story",
            ),
        ),
        migrations.CreateModel(
            name="Turn",
            fields=[
                (
                    "turn_id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                (
                    "chosen",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="chosen_for",
                        to="story_sessions.attempt",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="turns",
                        to="story_sessions.session",
                    ),
                ),
            ],
            options={
                "ordering": ["number"],
            },
        ),
        migrations.AddField(
            model_name="attempt",
            name="turn",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="attempts",
                to="story_sessions.turn",
            ),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["session", "prompt_index", "position"], name="event_order"),
        ),
        migrations.AddConstraint(
            model_name="event",
            constraint=models.UniqueConstraint(
                fields=("attempt", "position"), name="one_event_per_position"
            ),
        ),
        migrations.AddConstraint(
            model_name="change",
            constraint=models.UniqueConstraint(
                fields=("attempt", "run_id", "position"), name="one_change_per_position"
            ),
        ),
        migrations.AddConstraint(
            model_name="change",
            constraint=models.UniqueConstraint(
                condition=models.Q(("run_id", None)),
                fields=("attempt", "position"),
                name="one_act_per_position",
            ),
        ),
        migrations.AddConstraint(
            model_name="change",
            constraint=models.UniqueConstraint(
                condition=models.Q(("result__isnull", False)),
                fields=("run_id", "result"),
                name="one_change_per_result_of_a_run",
            ),
        ),
        migrations.AddConstraint(
            model_name="castmember",
            constraint=models.UniqueConstraint(
                fields=("session", "slot"), name="one_member_per_slot"
            ),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(
                models.OrderBy(models.F("last_played_at"), descending=True),
                models.F("story"),
                models.F("state"),
                condition=models.Q(("deleted_at", None)),
                name="chapter_played_last",
            ),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(fields=["state", "story"], name="chapter_by_state"),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(
                condition=models.Q(("deleted_at__isnull", False)),
                fields=["deleted_at"],
                name="chapter_deleted",
            ),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(
                django.db.models.functions.text.Lower("title"),
                models.F("story"),
                condition=models.Q(("deleted_at", None), ("place__gte", 0)),
                name="chapter_title",
            ),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(
                models.OrderBy(models.F("prompt_index"), descending=True),
                models.F("story"),
                condition=models.Q(("deleted_at", None), ("is_chosen", True), ("place__lte", 1)),
                name="chapter_length",
            ),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(
                condition=models.Q(("deleted_at", None), ("is_chosen", True), ("place__gt", 1)),
                fields=["story", "prompt_index"],
                name="chapter_later",
            ),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(
                condition=models.Q(("deleted_at", None), ("is_chosen", False)),
                fields=["story"],
                name="chapter_not_chosen",
            ),
        ),
        migrations.AddConstraint(
            model_name="session",
            constraint=models.UniqueConstraint(
                fields=("origin", "fork_key"), name="one_fork_per_submission"
            ),
        ),
        migrations.AddConstraint(
            model_name="session",
            constraint=models.UniqueConstraint(
                condition=models.Q(("deleted_at", None), ("is_chosen", True)),
                fields=("story", "place"),
                name="one_chosen_chapter_per_place",
            ),
        ),
        migrations.AddConstraint(
            model_name="turn",
            constraint=models.UniqueConstraint(
                fields=("session", "number"), name="one_turn_per_number"
            ),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                condition=models.Q(("status", "running")),
                fields=["session"],
                name="attempt_running",
            ),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(fields=["session", "status"], name="attempt_pending"),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(fields=["session", "submitted_at"], name="attempt_newest"),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.UniqueConstraint(
                fields=("session", "submission_key"), name="one_attempt_per_submission"
            ),
        ),
        migrations.RunPython(leave_room, migrations.RunPython.noop),
    ]
