"""Tests of what a call learns of its server: the fields that it refuses, and its window."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone
from pytest_django import Settings

from agents.calling.calls import call_model
from agents.calling.model_access import substitute_provider
from agents.calling.tests.exploring import MODELS, World, explorer, says, sent_text
from agents.calling.tests.exploring import native as native
from agents.calling.tests.exploring import world as world
from agents.flows.beginning.locking import request_lock
from agents.llm.facts.reported_windows import read_report
from agents.llm.providers.failures.call_errors import ContextOverflow, FieldRefused
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.llm.providers.tests import chat_server as server
from agents.models import LLMArtifact, RefusedField
from agents.prompting.layers import text_layer
from agents.prompting.tools import ToolForm
from agents.tests.calling import provider_at
from agents.tests.replies import world_lock
from memory.models import MemoryBlock
from sessions.models import Session, State
from sessions.tests.factories import make_active_chapter, make_chapter

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("native")]

RunJobs = Callable[[], int]


def refusal(*fields: str) -> FieldRefused:
    return FieldRefused("The server refused the call.", frozenset(fields), said="No.")


def fields() -> list[str]:
    return sorted(RefusedField.objects.values_list("field", flat=True))


def lock(run_jobs: RunJobs) -> Session:
    chapter = make_chapter()
    request_lock(chapter.pk)
    run_jobs()
    chapter.refresh_from_db()
    return chapter


class TestTheFormOfAnObject:
    def test_it_is_asked_for_without_a_schema_and_then_in_words(
        self, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue(
            refusal("json_schema"), refusal("response_format"), json.dumps(world_lock())
        )
        assert lock(run_jobs).state == State.ACTIVE
        assert MemoryBlock.objects.get().json_payload == world_lock()
        forms = [(one.json_schema is not None, one.json_object) for one in provider.history]
        assert forms == [(True, False), (False, True), (False, False)]
        assert "JSON" in sent_text(provider.history[-1])
        # Each call has a record, and what was refused cost nothing.
        calls = LLMArtifact.objects.order_by("created_at")
        assert [call.server_said for call in calls] == ["No.", "No.", ""]

    def test_a_server_that_refuses_without_end_is_not_asked_without_end(
        self, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue(*[refusal("response_format")] * 9)
        assert lock(run_jobs).state == State.DRAFT_TAB1
        assert len(provider.history) == 4


class TestTools:
    @pytest.mark.parametrize("form", ["json", "xml"])
    def test_they_are_told_in_words(
        self,
        form: ToolForm,
        world: World,
        provider: ScriptedProvider,
        settings: Settings,
    ) -> None:
        if form == "xml":
            # A model that takes tools, and without them writes XML better than JSON.
            settings.MODEL = "claude-sonnet-4"
        provider.enqueue(
            refusal("tools"), says(form, "I climb.", ("go", {"to": "the tower"})), says(form, "Up.")
        )
        reply = world.write(explorer())
        assert reply.text == "I climb.\n\nUp."
        assert world.place == "the tower"
        first, *others = provider.history
        assert first.tools
        assert not any(one.tools for one in others)
        assert all("- go: Goes to a place." in sent_text(one) for one in others)


def call_at(chapter: Session, *answers: server.Answer) -> list[str]:
    """Make a call at a real server, and return the fields that were sent each time."""

    async def run() -> list[str]:
        async with server.chat_server(*answers) as double:
            with substitute_provider(provider_at(double.base_url)):
                layers = [text_layer("USER_PROMPT", "Speak.")]
                await call_model(explorer(), chapter.pk, lambda: layers)
            return [" ".join(sorted({"temperature", "top_p"} & set(one))) for one in double.bodies]

    return async_to_sync(run)()


@pytest.mark.usefixtures("calls_allowed")
def test_a_field_is_left_out_of_all_later_calls() -> None:
    chapter = make_active_chapter()
    no = server.refuses(400, "Unsupported parameter: 'temperature'")
    assert call_at(chapter, no, server.says("I go.")) == ["temperature", ""]
    assert call_at(chapter, server.says("I go.")) == [""]
    assert fields() == ["temperature"]
    assert all("temperature" not in one.sent_options for one in LLMArtifact.objects.all())


@pytest.mark.usefixtures("calls_allowed")
def test_a_refusal_lasts_for_a_day_and_is_renewed() -> None:
    chapter = make_active_chapter()
    no = server.refuses(400, "Unsupported parameter: 'temperature'")
    call_at(chapter, no, server.says("I go."))
    for _ in range(2):
        RefusedField.objects.update(refused_at=timezone.now() - timedelta(hours=25))
        assert call_at(chapter, no, server.says("I go.")) == ["temperature", ""]
        assert call_at(chapter, server.says("I go.")) == [""]


@pytest.mark.parametrize(("told", "kept"), [(4_096, 4_096), (None, None), (10**7, None)])
def test_a_window_that_an_overflow_names_counts_from_then_on(
    provider: ScriptedProvider, settings: Settings, told: int | None, kept: int | None
) -> None:
    provider.enqueue(Script(error=ContextOverflow("Too long.", window=told)))
    chapter = make_active_chapter()
    layers = [text_layer("USER_PROMPT", "Speak.")]
    with pytest.raises(ContextOverflow):
        async_to_sync(call_model)(replace(explorer(), tools=()), chapter.pk, lambda: layers)
    report = read_report(settings.OPENAI_BASE_URL, MODELS["native"])
    assert (report and report.tokens) == kept
