"""Tests of how agents 0 and 8 answer with an object if their model accepts no JSON schema."""

import json
import logging
from collections.abc import Callable

import pytest
from pytest_django import Settings

from agents.calling.objects import NOT_USABLE
from agents.calling.records.behind_failures import what_the_check_said
from agents.calling.records.stored_prompts import read_layers
from agents.flows.beginning.locking import request_lock
from agents.llm.providers.base import ModelRequest
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job, LLMArtifact
from agents.prompting.tests.payloads import as_xml
from agents.tests.replies import world_lock
from sessions.limits import TAB1_CHAR_LIMIT
from sessions.models import Session, State, Tab1Inputs
from sessions.tests.factories import make_chapter

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]


@pytest.fixture
def use_model(settings: Settings) -> Callable[[str], None]:
    def use(name: str) -> None:
        settings.LLM = "openai"
        settings.MODEL = name
        settings.MODEL_BY_AGENT = {}

    return use


def lock_with(replies: list[str], provider: ScriptedProvider, run_jobs: RunJobs) -> Session:
    chapter = make_chapter()
    provider.enqueue(*replies)
    request_lock(chapter.pk)
    run_jobs()
    chapter.refresh_from_db()
    return chapter


def test_a_model_that_is_better_at_xml_is_asked_for_it_and_read(
    provider: ScriptedProvider, run_jobs: RunJobs, use_model: Callable[[str], None]
) -> None:
    use_model("claude-sonnet-4")
    chapter = lock_with(["no", as_xml(world_lock())], provider, run_jobs)
    assert chapter.memory_blocks.get().json_payload == world_lock()
    first, second = provider.history
    assert "<canon_locks><item>...</item></canon_locks>" in first.messages[-1].content
    assert "in the tags that were asked for" in second.messages[-1].content
    assert "no <world_chapter_lock>" in second.messages[-1].content


def test_what_breaks_off_is_asked_for_again_and_then_taken(
    provider: ScriptedProvider, run_jobs: RunJobs, caplog: pytest.LogCaptureFixture
) -> None:
    cut = json.dumps({**world_lock(), "assumptions": ["a storm", "the lamp was se"]})[:-3]
    with caplog.at_level(logging.WARNING, logger="agents.calling.objects"):
        chapter = lock_with([cut, cut], provider, run_jobs)
    assert "breaks off" in provider.history[1].messages[-1].content
    assert chapter.memory_blocks.get().json_payload == {**world_lock(), "assumptions": ["a storm"]}
    assert "breaks off" in caplog.text
    assert "lamp" not in caplog.text


@pytest.fixture
def _nothing_calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the engine's first estimate of tokens in every request, and ignore the tokens that models
    report."""
    monkeypatch.setattr("agents.calling.records.recording.calibrate", lambda *learned: None)


def full_tab_1(replies: list[str], provider: ScriptedProvider) -> Session:
    chapter = make_chapter()
    full = ("The ice moves. " * TAB1_CHAR_LIMIT)[:TAB1_CHAR_LIMIT]
    Tab1Inputs.objects.filter(session=chapter).update(world_text=full, chapter_text=full)
    provider.enqueue(*replies)
    request_lock(chapter.pk)
    return chapter


@pytest.mark.usefixtures("_nothing_calibrated")
def test_an_earlier_reply_that_leaves_no_room_is_not_shown_again(
    provider: ScriptedProvider, run_jobs: RunJobs, use_model: Callable[[str], None]
) -> None:
    use_model("a-model-nobody-knows")
    lamp = "The lamp is dark. " * 500
    chapter = full_tab_1([lamp, json.dumps(world_lock())], provider)
    run_jobs()
    chapter.refresh_from_db()
    assert chapter.state == State.ACTIVE
    first, second = provider.history
    assert [message.role for message in second.messages] == ["system", "user"]
    assert second.messages[0] == first.messages[0]
    prompt = second.messages[-1].content
    assert "The ice moves." in prompt
    assert "The lamp is dark." not in prompt
    assert "Your first reply was not acceptable: the reply holds no JSON object" in prompt
    layers = read_layers(LLMArtifact.objects.latest("created_at"))
    assert [layer.name for layer in layers if layer.dropped] == ["EARLIER_REPLY"]


def test_where_a_repair_has_no_room_the_gm_is_told_what_was_wrong(
    provider: ScriptedProvider,
    run_jobs: RunJobs,
    use_model: Callable[[str], None],
    settings: Settings,
) -> None:
    use_model("a-model-nobody-knows")
    chapter = full_tab_1([], provider)

    def shrink(request: ModelRequest) -> str:
        """Make the window smaller during the first call, so that the request for a repair does not
        fit."""
        settings.CONTEXT_WINDOW = 4_096
        return "no"

    provider.fallback = shrink
    run_jobs()
    chapter.refresh_from_db()
    job = Job.objects.get()
    assert (chapter.state, job.status) == (State.DRAFT_TAB1, Job.Status.FAILED)
    assert len(provider.history) == 1
    assert job.error.startswith(NOT_USABLE)
    assert "Nothing was sent" not in job.error
    assert what_the_check_said(job) == "the reply holds no JSON object"


def test_the_gm_is_told_what_happened_and_only_on_request_what_the_check_said(
    provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    strange = json.dumps({**world_lock(), "memory_type": "poem"})
    chapter = lock_with([strange, strange], provider, run_jobs)
    job = Job.objects.get()
    assert (chapter.state, job.status) == (State.DRAFT_TAB1, Job.Status.FAILED)
    assert job.error.startswith(NOT_USABLE)
    assert "{" not in job.error
    assert what_the_check_said(job) == "memory_type must be 'world_chapter_lock'"
    Job.objects.update(failure="ProviderBusy")
    assert what_the_check_said(Job.objects.get()) == ""
    assert what_the_check_said(None) == ""
