"""Tests of counts of tokens that are too high for any call.

A server may report such counts, and an older program stored them.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.test import Client
from pytest_django import Settings

from agents.calling.spending import check_budget
from agents.flows.tests.playing import play
from agents.models import LLMArtifact, TokenCalibration
from agents.prompting.budget import DEFAULT_WEIGHT_PER_TOKEN, read_weight_per_token
from agents.providers.base import Finished, ModelRequest, StreamPart, Usage
from agents.providers.scripted import ScriptedProvider
from sessions.models import Attempt, Session
from storyengine.tabs.tests.addresses import address

BEFORE = ("agents", "0009_admitted_calls")
MIGRATION = "agents.migrations.0010_impossible_token_counts"
LAYERS = [{"name": "SYSTEM", "tokens": 300}, {"name": "USER_PROMPT", "tokens": 200}]
REPLY = "I step in, and wait for the others."
PAGES = ("play", "world", "draft", "usage")

IMPOSSIBLE: list[dict[str, Any]] = [
    {"input": 2**64 - 1, "output": 1, "cached": 0},
    {"input": 500, "output": 2**64 - 1, "cached": 0},
    {"input": 500, "output": 10**400, "cached": 0},
    {"input": 500, "output": 1, "cached": 2**63},
    {"input": True, "output": False, "cached": 0},
    {"input": 2_000_000, "output": 1, "cached": 0},
    {"input": 500, "output": 2_000_000, "cached": 0},
]
POSSIBLE: list[dict[str, Any]] = [
    {},
    {"input": 0, "output": 0, "cached": 0},
    # A tokenizer needs far more tokens for some letters than the engine estimates, so this count is
    # possible.
    {"input": 3_000, "output": 21_000, "cached": 2_900},
]


def check_pages(client: Client, chapter: Session) -> None:
    for name in PAGES:
        assert client.get(address(chapter, name)).status_code == 200, name
    assert client.get(f"/api/session/{chapter.pk}/calls").status_code == 200


@pytest.mark.weekly
@pytest.mark.django_db(transaction=True)
class TestAfterTheUpdate:
    @pytest.fixture
    def before(self) -> Iterator[Any]:
        """Yield the models before the migration. Run all migrations afterwards."""
        yield MigrationExecutor(connection).migrate([BEFORE]).apps
        update()

    @pytest.fixture
    def stored(self, chapter: Session, before: Any) -> Callable[..., None]:
        """Return a function that stores calls with these counts, as an older program stored
        them."""

        def store(*reports: dict[str, Any]) -> None:
            for counts in reports:
                before.get_model("agents", "LLMArtifact").objects.create(
                    session_id=chapter.pk,
                    agent_id=1,
                    model="m",
                    token_counts=counts,
                    layers=LAYERS,
                    raw_output_ref=REPLY,
                )

        return store

    def test_a_chapter_with_such_calls_works_again(
        self,
        client: Client,
        chapter: Session,
        settings: Settings,
        stored: Callable[..., None],
    ) -> None:
        stored(*IMPOSSIBLE, *IMPOSSIBLE)
        update()
        for call in LLMArtifact.objects.all():
            assert call.token_counts == {}
            assert (call.estimated_input, call.estimated_output) == (500, 12)
        check_pages(client, chapter)
        settings.CHAPTER_TOKENS = 10_000
        check_budget(chapter.pk)
        assert play(chapter, slot=chapter.next_agent_slot).status == Attempt.Status.COMMITTED

    def test_what_can_be_true_stays(
        self, stored: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(import_module(MIGRATION), "_BATCH", 2)
        stored(*IMPOSSIBLE, *POSSIBLE)
        update()
        counts = LLMArtifact.objects.order_by("created_at").values_list("token_counts", flat=True)
        assert list(counts) == [{}] * len(IMPOSSIBLE) + POSSIBLE

    def test_what_one_has_taught_of_a_model_is_let_go(self, before: Any) -> None:
        learnt = before.get_model("agents", "TokenCalibration").objects
        for model, tokens in (("honest", 1_000), ("lying", 2.0**64), ("endless", 1e308 * 10)):
            learnt.create(model=model, agent_id=1, weight=4_000, tokens=tokens)
        update()
        assert TokenCalibration.objects.get().model == "honest"
        assert read_weight_per_token("lying", "character") == DEFAULT_WEIGHT_PER_TOKEN


def update() -> None:
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


class LyingProvider(ScriptedProvider):
    """A provider that reports for each call the largest number of tokens that 64 bits can hold."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        async for part in super().stream(request):
            yield (
                Finished(usage=Usage(2**64 - 1, 2**64 - 1)) if isinstance(part, Finished) else part
            )


@pytest.mark.django_db
def test_what_a_server_reports_now_leaves_the_pages_as_they_were(
    client: Client, chapter: Session, provider: ScriptedProvider
) -> None:
    provider.__class__ = LyingProvider
    for _ in range(2):
        assert play(chapter, slot=chapter.next_agent_slot).status == Attempt.Status.COMMITTED
    check_pages(client, chapter)
