"""Calls and jobs name attempts, and trials, which were jobs, become attempts of their own."""

import uuid

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Exists, IntegerField, OuterRef, Subquery
from django.db.models.functions import Cast

BATCH = 1_000
# What became of a trial's job, as an attempt says it.
STATUS = {"done": "committed", "failed": "failed"}


def name_attempts(apps, schema_editor):
    def chosen_at(number):
        turns = apps.get_model("story_sessions", "Turn").objects
        return Subquery(turns.filter(session=OuterRef("session"), number=number).values("chosen"))

    Job = apps.get_model("agents", "Job")
    summaries = Job.objects.filter(kind="summarize")
    summaries.update(attempt=chosen_at(OuterRef("to_prompt_index")))
    last = Cast(OuterRef("inputs__max_prompt_index"), IntegerField())
    Job.objects.filter(kind="narrate").update(attempt=chosen_at(last))
    # One that is done is not asked for again.
    unfinished = summaries.exclude(attempt=None).exclude(status="done")
    named = list(unfinished.only("from_prompt_index", "to_prompt_index", "attempt"))
    for job in named:
        job.key = f"{job.from_prompt_index}-{job.to_prompt_index} {job.attempt_id}"
    Job.objects.bulk_update(named, ["key"], batch_size=BATCH)
    # Whoever played on after an end that failed has a longer summary in its place.
    longer = summaries.filter(
        session=OuterRef("session"),
        from_prompt_index=OuterRef("from_prompt_index"),
        to_prompt_index__gt=OuterRef("to_prompt_index"),
    )
    summaries.filter(Exists(longer), status="failed").update(status="cancelled")


def name_jobs_of_drafts(apps, schema_editor):
    """A build was marked as done just before its draft was written."""
    builds = apps.get_model("agents", "Job").objects.filter(
        kind="narrate",
        status="done",
        session=OuterRef("session"),
        updated_at__lte=OuterRef("created_at"),
    )
    latest = builds.order_by("-updated_at").values("pk")[:1]
    apps.get_model("memory", "NarrativeDraft").objects.update(job_id=Subquery(latest))


def make_attempts_of_trials(apps, schema_editor):
    trials = apps.get_model("agents", "Job").objects.filter(kind="trial")
    for trial in trials.iterator(chunk_size=100):
        _make_attempt_of(apps, trial)
    trials.only("pk").delete()
    # PostgreSQL changes no table whose rows it has still to check.
    schema_editor.connection.check_constraints()


def _make_attempt_of(apps, trial):
    Attempt = apps.get_model("story_sessions", "Attempt")
    Event = apps.get_model("story_sessions", "Event")
    reply = Event.objects.filter(pk=trial.inputs["reply_id"]).select_related("attempt").first()
    if reply is None:
        return
    source, is_done = reply.attempt, trial.status == "done"
    names = ("call_id", "layer", "layer_name", "text_before", "text")
    made = {
        "kind": "trial",
        "turn_id": source.turn_id,
        "source": source,
        "given": {name: trial.inputs[name] for name in names},
    }
    # A trial that was adopted has its reply already, as a re-roll that called no model.
    key = f"trial-{trial.pk}"
    adopted = Attempt.objects.filter(session=trial.session_id, submission_key=key)
    if not adopted.update(**made):
        attempt = Attempt.objects.create(
            # The trial's page keeps its address.
            attempt_id=trial.pk,
            session_id=trial.session_id,
            submission_key=key,
            status=STATUS.get(trial.status, "stopped"),
            actor=source.actor,
            words=source.words,
            partial_text="" if is_done else trial.partial_text,
            error=trial.error,
            lease_until=trial.updated_at,
            submitted_at=trial.created_at,
            committed_at=trial.updated_at if is_done else None,
            **made,
        )
        if is_done:
            _write_events(Event, attempt, trial)
    calls = apps.get_model("agents", "LLMArtifact").objects.filter(job=trial.pk)
    calls.update(attempt=adopted.get(), job=None)


def _write_events(Event, attempt, trial):
    words, reply = Event.objects.filter(attempt=attempt.source, position__lte=1).order_by("position")
    words.created_at = trial.created_at
    reply.created_at, reply.text = trial.updated_at, trial.result_text
    for event in (words, reply):
        event.event_id, event.attempt = uuid.uuid4(), attempt
    Event.objects.bulk_create([words, reply])


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0011_worker_heartbeats"),
        ("memory", "0002_attempts"),
        ("story_sessions", "0004_attempts"),
    ]

    operations = [
        # Django would write the table anew on SQLite, and it may take a gigabyte.
        migrations.SeparateDatabaseAndState(
            [
                migrations.RunSQL(
                    "ALTER TABLE agents_llmartifact RENAME COLUMN turn_id TO attempt_id",
                    "ALTER TABLE agents_llmartifact RENAME COLUMN attempt_id TO turn_id",
                )
            ],
            [migrations.RenameField("llmartifact", "turn", "attempt")],
        ),
        migrations.AddField(
            "job",
            "attempt",
            models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="jobs",
                to="story_sessions.attempt",
            ),
        ),
        migrations.RunPython(name_attempts, migrations.RunPython.noop),
        migrations.RunPython(name_jobs_of_drafts, migrations.RunPython.noop),
        migrations.RunPython(make_attempts_of_trials, migrations.RunPython.noop),
    ]
