"""Tests with golden files of the messages that only some calls have: reminders of the form of the
answer, requests to repair it, and requests for later scenes."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import Settings

from agents.flows.beginning.locking import request_lock
from agents.flows.telling.ending import request_end
from agents.flows.telling.narrating import request_build
from agents.flows.telling.tests.narrations import make_ended_chapter, prompt_of_second_scene, words
from agents.llm.providers.base import Message
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.prompting.tests.golden_files import check_golden
from agents.prompting.tests.payloads import as_xml
from agents.tests.replies import turn_delta, world_lock
from sessions.tests.factories import add_prompts, make_active_chapter, make_chapter

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]

# For each form of an answer: a model that is asked to answer in this form, and a function that
# writes such an answer.
FORMS: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "json": ("a-model-nobody-knows", json.dumps),
    "xml": ("claude-sonnet-4", as_xml),
}


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest, settings: Settings) -> str:
    """Choose the model for this form. The model accepts no schema, so the requests of agents 0 and
    8 remind it of the form."""
    settings.LLM = "openai"
    settings.MODEL = FORMS[request.param][0]
    settings.MODEL_BY_AGENT = {}
    return str(request.param)


def test_a_lock_and_its_repair(form: str, provider: ScriptedProvider, run_jobs: RunJobs) -> None:
    chapter = make_chapter()
    provider.enqueue("The lamp is dark.", FORMS[form][1](world_lock()))
    request_lock(chapter.pk)
    run_jobs()
    check_golden(f"agent_0_repair_{form}", provider.history[1].messages)


def test_a_summary_and_its_repair(form: str, provider: ScriptedProvider, run_jobs: RunJobs) -> None:
    chapter = make_active_chapter()
    add_prompts(chapter, 2)
    provider.enqueue("They met.", FORMS[form][1](turn_delta(1, 2)))
    request_end(chapter.pk)
    run_jobs()
    check_golden(f"agent_8_repair_{form}", provider.history[1].messages)


def test_a_whole_chapter_and_its_continuations(
    provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = make_ended_chapter(2)
    provider.enqueue("The lamp was dark.", Script("The stairs were wet. Nobody", was_cut=True))
    provider.enqueue(words(200))
    request_build(chapter.pk)
    run_jobs()
    check_golden("agent_9_whole", provider.history[0].messages)
    check_golden("agent_9_continued", _added(provider, 1))
    check_golden("agent_9_continued_again", _added(provider, 2))


def test_a_scene_after_another(
    small_window: None, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    check_golden("agent_9_scene", prompt_of_second_scene(provider, run_jobs))


def _added(provider: ScriptedProvider, call: int) -> list[Message]:
    """Return the messages that a later call adds to the prompt of the first call."""
    first = provider.history[0].messages
    assert provider.history[call].messages[: len(first)] == first
    return list(provider.history[call].messages[len(first) :])
