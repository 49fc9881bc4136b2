"""Tests that compare the estimate of a build with the build itself."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from agents.calling.estimating import CallsEstimate
from agents.exceptions import PromptTooLong
from agents.flows.telling.estimates import estimate_build
from agents.flows.telling.narrating import request_build
from agents.flows.telling.scenes import TOKENS_PER_WORD
from agents.flows.telling.tests.narrations import make_ended_chapter, words
from agents.llm.facts.prices import price_of
from agents.llm.providers.base import ModelRequest
from agents.llm.providers.failures.call_errors import ProviderBusy
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import LLMArtifact
from sessions.chapter.access import get_chapter
from sessions.exceptions import WrongState
from sessions.models import Session
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]


@pytest.fixture(autouse=True)
def _openai(settings: Any) -> None:
    settings.LLM = "openai"
    settings.OPENAI_BASE_URL = "https://api.openai.com/v1"


@pytest.fixture
def long_scenes(provider: ScriptedProvider) -> None:
    """Let the narrator write enough words in each call, so that no scene has to be continued."""

    def write(request: ModelRequest) -> str:
        call = len(provider.history)
        paragraph = f"It was call {call}, and the lamp was dark. " * 8
        return "\n\n".join([paragraph] * 9)

    provider.fallback = write


def set_target(chapter: Session, words_wanted: int) -> CallsEstimate:
    Session.objects.filter(pk=chapter.pk).update(target_words=words_wanted)
    return estimate_build(get_chapter(chapter.pk))


@pytest.mark.usefixtures("long_scenes", "small_window")
@pytest.mark.parametrize("longest", [1, 20, 28])
def test_the_prompts_are_those_that_a_build_sends(
    longest: int, run_jobs: RunJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The calls of the build must not change how the engine counts tokens, because the test compares
    # them with an estimate that was made before.
    monkeypatch.setattr("agents.calling.records.recording.calibrate", lambda *learned: None)
    chapter = make_ended_chapter(28)
    words_of = chapter.events.filter(prompt_index=longest, role="user")
    words_of.update(text="The lamp on the pier is dark tonight. " * 8)
    expected = set_target(chapter, 2_000)
    request_build(chapter.pk)
    run_jobs()
    sent = LLMArtifact.objects.filter(agent_id=9)
    tokens = sum(layer["tokens"] for call in sent for layer in call.layers)
    assert expected.calls == sent.count() > 1
    assert 0.99 * tokens <= expected.input_tokens <= 1.1 * tokens


def test_a_build_in_one_call() -> None:
    expected = estimate_build(make_ended_chapter())
    assert expected.calls == 1
    assert expected.output_tokens == round(200 * TOKENS_PER_WORD)
    assert expected.warning == ""


def test_the_price_is_that_of_the_narrators_model(settings: Any) -> None:
    expected = estimate_build(make_ended_chapter())
    price = price_of(expected.model)
    assert price is not None
    assert expected.dollars == price.of(
        {"input": expected.input_tokens, "output": expected.output_tokens}
    )
    assert expected.reasoning_dollars == price.of({"output": expected.reasoning_tokens})
    assert expected.reasoning_tokens > 0


@pytest.mark.usefixtures("small_window")
def test_a_resumed_build_leaves_out_what_is_finished(
    provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = make_ended_chapter(14)
    before = set_target(chapter, 1_200)
    provider.enqueue(words(700, "first"), ProviderBusy("503"))
    request_build(chapter.pk)
    run_jobs()
    after = estimate_build(get_chapter(chapter.pk))
    assert (before.calls, after.calls) == (2, 1)
    assert after.input_tokens < before.input_tokens
    assert set_target(chapter, 1_190).calls == 2


def test_a_build_that_costs_more_than_is_left_says_so(settings: Any) -> None:
    chapter = make_ended_chapter()
    cost = estimate_build(chapter).dollars
    assert cost is not None
    settings.CHAPTER_BUDGET = cost
    assert estimate_build(chapter).warning == ""
    settings.CHAPTER_BUDGET = cost - Decimal("0.000001")
    assert "STORYENGINE_CHAPTER_BUDGET" in estimate_build(chapter).warning


def test_only_an_ended_chapter_has_one() -> None:
    with pytest.raises(WrongState):
        estimate_build(make_active_chapter())


def test_what_cannot_fit_is_refused_as_the_build_would_be(small_window: None) -> None:
    chapter = make_ended_chapter(narrative_agent_definition_text="x" * 60_000)
    with pytest.raises(PromptTooLong):
        estimate_build(chapter)
