"""Tests of the migration after which a record has the name of its agent in place of the agent's
number."""

from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from agents.models import LLMArtifact, TokenCalibration

pytestmark = [pytest.mark.weekly, pytest.mark.django_db(transaction=True)]

BEFORE = [("agents", "0017_job_finished_deltas")]


@pytest.fixture
def _from_before(transactional_db: None) -> Iterator[None]:
    try:
        executor = MigrationExecutor(connection)
        executor.migrate(BEFORE)
        sessions = executor.loader.graph.leaf_nodes("story_sessions")
        apps = executor.loader.project_state([*BEFORE, *sessions]).apps
        story = apps.get_model("story_sessions", "Story").objects.create()
        chapter = apps.get_model("story_sessions", "Session").objects.create(
            title="Old", story=story
        )
        for number in range(10):
            apps.get_model("agents", "LLMArtifact").objects.create(
                session=chapter, agent_id=number, provider="p", model="m"
            )
        learnt = apps.get_model("agents", "TokenCalibration").objects
        for model, number, tokens in (("m", 1, 10), ("m", 7, 20), ("m", 8, 40), ("n", 7, 80)):
            learnt.create(model=model, agent_id=number, weight=4 * tokens, tokens=tokens)
        migrate_to_newest()
        yield
    finally:
        # The database is restored even if the migration fails, because other tests need it.
        call_command("flush", interactive=False, verbosity=0, inhibit_post_migrate=True)
        migrate_to_newest()


def migrate_to_newest() -> None:
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


@pytest.mark.usefixtures("_from_before")
def test_calls_and_what_was_learnt_of_them_are_carried_over() -> None:
    calls = LLMArtifact.objects.order_by("agent_id").values_list("agent_id", "agent")
    names = ["world_lock", *["character"] * 7, "memory", "narrator"]
    assert list(calls) == list(enumerate(names))
    learnt = TokenCalibration.objects.order_by("model", "agent")
    assert list(learnt.values_list("model", "agent", "weight", "tokens")) == [
        ("m", "character", 120, 30),
        ("m", "memory", 160, 40),
        ("n", "character", 320, 80),
    ]
