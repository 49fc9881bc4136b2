"""The characters of a chapter become rows, and how many prompts a summary covers a column."""

import uuid

import django.db.models.deletion
from django.db import migrations, models

BATCH = 500
SLOTS = range(1, 8)


def store_cast(apps, schema_editor):
    CastMember, Session, Tab1Inputs = (
        apps.get_model("story_sessions", name) for name in ("CastMember", "Session", "Tab1Inputs")
    )
    chapters = Session.objects.only("selected_agent_slots", "agent_names", "config")
    for batch in _batches(chapters.order_by("pk").iterator(chunk_size=BATCH)):
        rows = Tab1Inputs.objects.filter(session__in=batch)
        identities = dict(rows.values_list("session", "agent_identity_text_by_slot"))
        members = [
            CastMember(
                session=chapter,
                slot=slot,
                is_selected=slot in chapter.selected_agent_slots,
                name=chapter.agent_names.get(str(slot), ""),
                identity_text=identities.get(chapter.pk, {}).get(str(slot), ""),
            )
            for chapter in batch
            for slot in SLOTS
        ]
        CastMember.objects.bulk_create(
            [one for one in members if one.is_selected or one.name or one.identity_text]
        )
        for chapter in batch:
            # Nothing has read it so far; a file could say anything.
            size = chapter.config.get("chunk_size_prompts", 7)
            if size != 7 and 3 <= size <= 20:
                Session.objects.filter(pk=chapter.pk).update(chunk_size_prompts=size)
    # PostgreSQL changes no table whose rows it has still to check.
    schema_editor.connection.check_constraints()


def _batches(chapters):
    batch = []
    for chapter in chapters:
        batch.append(chapter)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


class Migration(migrations.Migration):
    # Memory reads the cast as it was stored before.
    dependencies = [("story_sessions", "0005_attempts_only"), ("memory", "0004_audiences")]

    operations = [
        migrations.CreateModel(
            "CastMember",
            [
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
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="members",
                        to="story_sessions.session",
                    ),
                ),
            ],
            {
                "ordering": [models.OrderBy(models.F("slot"), nulls_last=True), "member_id"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("session", "slot"), name="one_member_per_slot"
                    )
                ],
            },
        ),
        migrations.AddField(
            "session", "chunk_size_prompts", models.PositiveSmallIntegerField(default=7)
        ),
        migrations.RunPython(store_cast, migrations.RunPython.noop),
        migrations.RemoveField("session", "agent_names"),
        migrations.RemoveField("session", "config"),
        migrations.RemoveField("session", "selected_agent_slots"),
        migrations.RemoveField("tab1inputs", "agent_identity_text_by_slot"),
    ]
