"""Tests that compare the estimate of a build with the build itself."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from agents.calling.estimating import CallsEstimate
from agents.exceptions import PromptTooLong
from agents.flows.telling.estimates import estimate_build
from agents.flows.telling.narrating import read_inputs, request_build
from agents.flows.telling.scenes import TOKENS_PER_WORD
from agents.flows.telling.tests.narrations import make_ended_chapter, words
from agents.llm.facts.prices import price_of
from agents.llm.providers.base import ModelRequest
from agents.llm.providers.failures.call_errors import ProviderBusy
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job, LLMArtifact
from agents.prompting import layer_sources
from agents.prompting.layer_sources import transcript_weights
from agents.prompting.layers import weigh
from sessions.chapter.access import get_chapter
from sessions.exceptions import WrongState
from sessions.models import Session
from sessions.tests.factories import add_prompts, add_reply, make_active_chapter

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


def test_a_longer_chapter_takes_more() -> None:
    chapter = make_ended_chapter()
    assert set_target(chapter, 4_000).output_tokens == 20 * set_target(chapter, 200).output_tokens


def test_the_transcript_is_weighed_once_for_all_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    weighed: list[str] = []

    def weigh_and_note(text: str) -> float:
        weighed.append(text)
        return weigh(text)

    monkeypatch.setattr(layer_sources, "weigh", weigh_and_note)
    chapter = make_ended_chapter(14)
    first = set_target(chapter, 1_000)
    assert "beat 14" in weighed
    weighed.clear()
    assert set_target(chapter, 2_000).output_tokens > first.output_tokens
    assert not weighed


def test_another_reply_and_another_prompt_are_weighed_anew() -> None:
    chapter = make_ended_chapter(14)
    *before, last = transcript_weights(chapter, 14)
    add_reply(chapter, 14, "Dark water. " * 99)
    *same, other = transcript_weights(chapter, 14)
    assert same == before
    assert other > last
    add_prompts(chapter, 1)
    assert transcript_weights(chapter, 15)[:-1] == (*same, other)
    assert transcript_weights(chapter, 13) == tuple(same)


def test_the_price_is_that_of_the_narrators_model(settings: Any) -> None:
    expected = estimate_build(make_ended_chapter())
    price = price_of(expected.model)
    assert price is not None
    assert expected.dollars == price.of(
        {"input": expected.input_tokens, "output": expected.output_tokens}
    )
    assert expected.reasoning_dollars == price.of({"output": expected.reasoning_tokens})
    assert expected.reasoning_tokens > 0


def test_a_model_without_a_price_or_reasoning(small_window: None) -> None:
    expected = estimate_build(make_ended_chapter())
    assert (expected.dollars, expected.reasoning_dollars) == (None, None)
    assert expected.reasoning_tokens == 0


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


@pytest.mark.usefixtures("small_window")
def test_a_build_with_nothing_left_to_write_asks_for_nothing() -> None:
    chapter = make_ended_chapter(14)
    scenes = [{"first": 1, "last": 14, "target_words": 200}]
    chapter.jobs.create(
        kind=Job.Kind.NARRATE,
        key="all written",
        status=Job.Status.FAILED,
        inputs=read_inputs(chapter),
        scenes=scenes,
        finished_scenes=["The lamp was lit."],
    )
    expected = estimate_build(chapter)
    assert (expected.calls, expected.input_tokens, expected.output_tokens) == (0, 0, 0)


def test_a_build_that_costs_more_than_is_left_says_so(settings: Any) -> None:
    chapter = make_ended_chapter()
    cost = estimate_build(chapter).dollars
    assert cost is not None
    settings.CHAPTER_BUDGET = cost
    assert estimate_build(chapter).warning == ""
    settings.CHAPTER_BUDGET = cost - Decimal("0.000001")
    assert "STORYENGINE_CHAPTER_BUDGET" in estimate_build(chapter).warning


def test_tokens_cap_a_model_without_a_price(small_window: None, settings: Any) -> None:
    chapter = make_ended_chapter()
    expected = estimate_build(chapter)
    settings.CHAPTER_TOKENS = expected.input_tokens + expected.output_tokens
    assert estimate_build(chapter).warning == ""
    settings.CHAPTER_TOKENS -= 1
    assert "STORYENGINE_CHAPTER_TOKENS" in estimate_build(chapter).warning


def test_only_an_ended_chapter_has_one() -> None:
    with pytest.raises(WrongState):
        estimate_build(make_active_chapter())


def test_what_cannot_fit_is_refused_as_the_build_would_be(small_window: None) -> None:
    chapter = make_ended_chapter(narrative_agent_definition_text="x" * 60_000)
    with pytest.raises(PromptTooLong):
        estimate_build(chapter)


@pytest.mark.parametrize(("tokens", "shown"), [(7, 7), (84, 84), (849, 850), (18_437, 18_000)])
def test_figures_are_rounded_as_estimates_are(tokens: int, shown: int) -> None:
    estimate = CallsEstimate("m", 1, tokens, tokens, 0, None, None, "")
    assert (estimate.about_input, estimate.about_output) == (shown, shown)


def test_words_of_a_script_that_costs_more_tokens_are_estimated_higher() -> None:
    chapter = make_ended_chapter()
    chapter.events.update(text="등대가 무너지고 민수가 나온다. " * 8)
    assert estimate_build(chapter).output_tokens > 1.2 * round(200 * TOKENS_PER_WORD)
