"""Turns become attempts, and what was played becomes numbered turns with one chosen attempt each."""

import uuid
from collections import defaultdict
from itertools import groupby
from operator import attrgetter

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Case, F, OuterRef, Subquery, When

BATCH = 1_000


def number_turns(apps, schema_editor):
    Attempt, Event, Session, Turn = (
        apps.get_model("story_sessions", name) for name in ("Attempt", "Event", "Session", "Turn")
    )
    Attempt.objects.filter(status="committed").update(committed_at=F("updated_at"))
    for session in Session.objects.only("selected_agent_slots").iterator(chunk_size=BATCH):
        _Chapter(session, Attempt, Event, Turn).store()
    turn = Turn.objects.filter(session=OuterRef("session"), number=OuterRef("prompt_index"))
    Attempt.objects.exclude(prompt_index=None).update(turn=Subquery(turn.values("pk")))
    # No program has left words without a reply or a reply without words, and no import takes them.
    Event.objects.filter(attempt=None).delete()
    # PostgreSQL changes no table whose rows it has still to check.
    schema_editor.connection.check_constraints()


class _Chapter:
    """One chapter's turns and attempts, as its events and its answered prompts have them."""

    def __init__(self, session, Attempt, Event, Turn):
        self.session, self.Attempt, self.Event, self.Turn = session, Attempt, Event, Turn
        self.answered = defaultdict(list)
        self.turns, self.new_attempts = [], []
        # Events that are not simply those of the chosen attempt, or not in their order.
        self.of_others, self.copies, self.of_the_system = [], [], []

    def store(self):
        # In the order of their replies; a clock that was set back moves no prompt behind a re-roll.
        answered = self.Attempt.objects.filter(session=self.session, status="committed")
        for row in answered.order_by("kind", "updated_at").only("prompt_index", "submitted_at"):
            self.answered[row.prompt_index].append(row)
        events = self.Event.objects.filter(session=self.session)
        ordered = events.order_by("prompt_index", "created_at", "pk")
        # What the system said before the first prompt belongs to the first turn from here on.
        early = []
        for number, of_prompt in groupby(ordered, key=attrgetter("prompt_index")):
            by_role = defaultdict(list)
            for event in of_prompt:
                by_role[event.role].append(event)
            system_events = early + by_role["system"]
            if by_role["user"] and by_role["agent"]:
                self._add_turn(number, by_role["user"][0], by_role["agent"], system_events)
                system_events = []
            early = system_events
        self._write(events)

    def _add_turn(self, number, words, replies, system_events):
        rows = self.answered[number][-len(replies) :]
        # A chapter that was imported has replies without rows: those that came first.
        made = [self._make(words, reply) for reply in replies[: len(replies) - len(rows)]]
        if made:
            made[0].kind = "prompt"
        first, *others = attempts = made + rows
        self.new_attempts += made
        self.turns.append(self.Turn(session=self.session, number=number, chosen=attempts[-1]))
        if others:
            words.attempt = first
            for attempt, reply in zip(attempts, replies, strict=True):
                reply.attempt = attempt
            self.of_others += [words, *replies]
            self.copies += [self._copy(words, attempt) for attempt in others]
        for position, event in enumerate(system_events, start=2):
            event.attempt, event.position, event.prompt_index = attempts[-1], position, number
        self.of_the_system += system_events

    def _make(self, words, reply):
        return self.Attempt(
            session=self.session,
            submission_key=str(uuid.uuid4()),
            kind="reroll",
            status="committed",
            actor=reply.agent_slot or 1,
            words=words.text,
            prompt_index=words.prompt_index,
            lease_until=reply.created_at,
            submitted_at=words.created_at,
            committed_at=reply.created_at,
        )

    def _copy(self, words, attempt):
        return self.Event(
            session=self.session,
            attempt=attempt,
            prompt_index=words.prompt_index,
            position=0,
            role="user",
            text=words.text,
            witnesses=self.session.selected_agent_slots,
            created_at=attempt.submitted_at,
        )

    def _write(self, events):
        self.Attempt.objects.bulk_create(self.new_attempts, batch_size=BATCH)
        self.Turn.objects.bulk_create(self.turns, batch_size=BATCH)
        turn = self.Turn.objects.filter(session=self.session, number=OuterRef("prompt_index"))
        events.update(
            attempt=Subquery(turn.values("chosen")),
            position=Case(When(role="agent", then=1), default=0),
            witnesses=self.session.selected_agent_slots,
        )
        self.Event.objects.bulk_update(self.of_others, ["attempt"], batch_size=BATCH)
        fields = ["attempt", "position", "prompt_index"]
        self.Event.objects.bulk_update(self.of_the_system, fields, batch_size=BATCH)
        self.Event.objects.bulk_create(self.copies, batch_size=BATCH)


class RenameModelInPlace(migrations.RenameModel):
    """Rename the table alone, which keeps the references to it.

    Django would write the tables that refer to it anew on SQLite, and the calls of a chapter may
    take a gigabyte.
    """

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        old = from_state.apps.get_model(app_label, self.old_name)
        new = to_state.apps.get_model(app_label, self.new_name)
        schema_editor.alter_db_table(new, old._meta.db_table, new._meta.db_table)


class Migration(migrations.Migration):
    # Every earlier migration that speaks of a turn means what is an attempt from here on.
    dependencies = [("story_sessions", "0003_accepted_calls_and_importing"), ("agents", "0011_worker_heartbeats")]

    operations = [
        migrations.RemoveConstraint("turn", "one_turn_per_submission"),
        migrations.RemoveIndex("turn", "turn_lease"),
        migrations.RemoveIndex("turn", "turn_pending"),
        migrations.RemoveIndex("turn", "turn_newest"),
        RenameModelInPlace("Turn", "Attempt"),
        migrations.RenameField("attempt", "turn_id", "attempt_id"),
        migrations.RenameField("attempt", "agent_slot", "actor"),
        migrations.RenameField("attempt", "user_text", "words"),
        # Twice, so that the index gets the new table's name: the new "turn" takes the old one.
        migrations.AlterField(
            "attempt",
            "session",
            models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="attempts",
                to="story_sessions.session",
            ),
        ),
        migrations.AlterField(
            "attempt",
            "session",
            models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="attempts",
                to="story_sessions.session",
            ),
        ),
        migrations.AlterField(
            "attempt",
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
            options={"ordering": ["number"]},
        ),
        migrations.AddConstraint(
            "turn",
            models.UniqueConstraint(fields=("session", "number"), name="one_turn_per_number"),
        ),
        migrations.AddField(
            "attempt",
            "turn",
            models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="attempts",
                to="story_sessions.turn",
            ),
        ),
        migrations.AddField(
            "attempt",
            "source",
            models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                to="story_sessions.attempt",
            ),
        ),
        migrations.AddField("attempt", "given", models.JSONField(blank=True, null=True)),
        migrations.AddField("attempt", "witnesses", models.JSONField(blank=True, null=True)),
        migrations.AddField("attempt", "committed_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddField(
            "event",
            "attempt",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="events",
                to="story_sessions.attempt",
            ),
        ),
        migrations.AddField("event", "position", models.PositiveSmallIntegerField(null=True)),
        migrations.AddField("event", "witnesses", models.JSONField(default=list)),
        migrations.AddField(
            "session", "shows_all_replies", models.BooleanField(default=False)
        ),
        migrations.RemoveConstraint("event", "one_user_event_per_prompt"),
        migrations.RunPython(number_turns, migrations.RunPython.noop),
    ]
