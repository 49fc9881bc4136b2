"""Tests of the migration by which a server's words get a column of their own."""

from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from agents.models import Job, LLMArtifact, ModelTest
from sessions.models import Attempt

pytestmark = [pytest.mark.weekly, pytest.mark.django_db(transaction=True)]

BEFORE = [("story_sessions", "0033_terms_without_marks"), ("agents", "0032_queues")]
OURS, THEIRS = "The server refused the call (400).", "No “stop”, please. It says: “no”."
RECORDED = f"{OURS} It says: “{THEIRS}”"


def store(apps: Any) -> None:
    """Store failures as a program without the column did."""
    story = apps.get_model("story_sessions", "Story").objects.create()
    session = story.chapters.create()
    attempts = [
        session.attempts.create(
            submission_key=str(at), status="failed", error=error, lease_until=timezone.now()
        )
        for at, error in enumerate([OURS, "It wrote nothing."])
    ]
    job = session.jobs.create(
        key="1", kind="lock", status="failed", error=f"{OURS} Tab 1 is there."
    )
    for owner in [{"attempt": attempts[0]}, {"attempt": attempts[1]}, {"job": job}, {}]:
        session.llm_artifacts.create(agent="a", provider="p", model="m", error=RECORDED, **owner)
    session.llm_artifacts.create(agent="a", provider="p", model="m", error=OURS)
    apps.get_model("agents", "ModelTest").objects.create(agent="a", error=RECORDED)


def test_the_words_move_and_stand_beside_the_failure_that_they_are_of() -> None:
    try:
        executor = MigrationExecutor(connection)
        executor.migrate(BEFORE)
        store(executor.loader.project_state(BEFORE).apps)
    except BaseException:
        call_command("flush", interactive=False, verbosity=0, inhibit_post_migrate=True)
        raise
    finally:
        # The database is restored even if the migration fails, because other tests need it.
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())
    assert sorted(LLMArtifact.objects.values_list("error", "server_said")) == [
        (OURS, ""),
        *[(OURS, THEIRS)] * 4,
    ]
    assert ModelTest.objects.values_list("error", "server_said").get() == (OURS, THEIRS)
    assert Job.objects.get().server_said == THEIRS
    said = Attempt.objects.order_by("submission_key").values_list("server_said", flat=True)
    assert list(said) == [THEIRS, ""]
    # The way back puts them where they stood.
    try:
        executor = MigrationExecutor(connection)
        executor.migrate(BEFORE)
        errors = executor.loader.project_state(BEFORE).apps.get_model("agents", "LLMArtifact")
        assert sorted(errors.objects.values_list("error", flat=True)) == [OURS, *[RECORDED] * 4]
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())
