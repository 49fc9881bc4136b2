"""If memory is far behind, the user has to accept the calls that memory needs before they are made.

When the user has accepted these calls, each prompt makes one of them.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from agents.calling.tests.bookkeeping import chunks_of
from agents.flows.remembering import summarizing
from agents.flows.remembering.memory_calls import CallsNotAccepted, find_memory_behind
from agents.flows.telling.ending import request_end, retry_summary
from agents.flows.telling.narrating import request_build
from agents.flows.tests.playing import play, play_many, reroll
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job, LLMArtifact
from agents.running.recovery import give_notice_of_due_jobs, recover
from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import copy_setup
from sessions.models import Session, State
from sessions.tests.factories import add_prompts, add_thoughts, make_active_chapter
from testing.long_memory import delta_payload

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]


@pytest.fixture
def behind() -> Session:
    """Return a chapter in play. Its memory lacks three stretches and one more prompt."""
    chapter = make_active_chapter()
    add_prompts(chapter, 22)
    return chapter


def covered(chapter: Session) -> int:
    chapter.refresh_from_db()
    return chapter.last_summarized_prompt_index


def test_two_chunks_are_made_up_for_without_a_question(
    provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = make_active_chapter()
    add_prompts(chapter, 14)
    play(chapter)
    run_jobs()
    assert chunks_of(chapter) == [(1, 7), (8, 14)]


@pytest.mark.parametrize("go_on", [play, reroll])
def test_play_goes_on_and_nothing_is_written_before_the_answer(
    behind: Session, provider: ScriptedProvider, run_jobs: RunJobs, go_on: Callable[..., object]
) -> None:
    go_on(behind)
    recover()
    give_notice_of_due_jobs()
    run_jobs()
    assert [request.messages[0].role for request in provider.history] == ["system"]
    assert not Job.objects.exists()
    assert (behind.state, covered(behind)) == (State.ACTIVE, 0)


def test_stretches_of_thoughts_alone_take_no_call_and_the_others_are_asked_for(
    provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = make_active_chapter(chunk_size_prompts=3)
    for _ in range(5):
        add_thoughts(chapter, 3)
        add_prompts(chapter, 3)
    for is_ending in (False, True):
        found = find_memory_behind(chapter, is_ending=is_ending)
        assert found is not None
        assert (found.first, found.last, found.calls) == (1, 30, 5)
        assert found.estimate is not None
        assert found.estimate.calls == 5
    for ask in (retry_summary, request_end):
        with pytest.raises(CallsNotAccepted, match="takes 5 calls"):
            ask(chapter.pk)
    request_end(chapter.pk, accept_calls=True)
    run_jobs()
    assert (covered(chapter), chapter.state, len(provider.history)) == (30, State.ENDED, 5)


@pytest.mark.parametrize(
    ("ask", "calls"), [(retry_summary, 3), (request_end, 4), (request_build, 4)]
)
def test_whatever_would_start_them_asks_first_and_changes_nothing(
    behind: Session, provider: ScriptedProvider, ask: Callable[..., object], calls: int
) -> None:
    with pytest.raises(CallsNotAccepted, match=f"takes {calls} calls") as caught:
        ask(behind.pk)
    assert (caught.value.status, caught.value.behind.calls) == (409, calls)
    behind.refresh_from_db()
    assert (behind.state, behind.is_ending, behind.accepted_calls) == (State.ACTIVE, False, 0)
    assert not Job.objects.exists()


def test_an_accepted_catch_up_takes_one_call_with_each_prompt(
    behind: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    retry_summary(behind.pk, accept_calls=True)
    assert get_chapter(behind.pk).accepted_calls == 3
    run_jobs()
    assert (covered(behind), behind.accepted_calls, behind.state) == (7, 2, State.ACTIVE)
    for memory in (14, 21):
        play(behind)
        run_jobs()
        assert covered(behind) == memory
    assert behind.accepted_calls == 0
    play_many(behind, 4)
    run_jobs()
    assert covered(behind) == 28


@pytest.mark.weekly
def test_what_play_adds_while_memory_catches_up_is_not_asked_for(
    provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = make_active_chapter()
    add_prompts(chapter, 90)
    retry_summary(chapter.pk, accept_calls=True)
    while covered(chapter) < chapter.prompt_index - 7:
        before = covered(chapter)
        run_jobs()
        assert covered(chapter) == before + 7
        play(chapter)
    assert find_memory_behind(chapter, is_ending=False) is None


@pytest.mark.parametrize("accepts_in_play", [True, False])
def test_the_end_makes_all_that_are_left(
    behind: Session, provider: ScriptedProvider, run_jobs: RunJobs, accepts_in_play: bool
) -> None:
    if accepts_in_play:
        retry_summary(behind.pk, accept_calls=True)
        run_jobs()
    request_end(behind.pk, accept_calls=not accepts_in_play)
    run_jobs()
    behind.refresh_from_db()
    assert (behind.state, behind.accepted_calls) == (State.ENDED, 0)
    assert chunks_of(behind) == [(1, 7), (8, 14), (15, 21), (22, 22)]


def test_an_end_waits_for_no_prompt_after_the_call_that_is_under_way(
    behind: Session,
    provider: ScriptedProvider,
    run_jobs: RunJobs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = summarizing._store

    def ask_for_the_end_first(*arguments: Any) -> None:
        if not behind.memory_blocks.exists():
            request_end(behind.pk)
        store(*arguments)

    monkeypatch.setattr(summarizing, "_store", ask_for_the_end_first)
    retry_summary(behind.pk, accept_calls=True)
    run_jobs()
    behind.refresh_from_db()
    assert behind.state == State.ENDED
    assert chunks_of(behind) == [(1, 7), (8, 14), (15, 21), (22, 22)]
    assert len(provider.history) == 4


def test_a_copy_has_accepted_nothing(behind: Session) -> None:
    Session.objects.update(accepted_calls=3)
    assert copy_setup(behind.pk).accepted_calls == 0


@pytest.mark.weekly
@pytest.mark.parametrize("model", ["o4-mini", "a-model-nobody-knows"])
def test_the_estimate_is_about_what_the_calls_then_take(
    provider: ScriptedProvider,
    run_jobs: RunJobs,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
) -> None:
    # These calls must not change how the engine counts tokens, because the test compares them with
    # an estimate that was made before.
    monkeypatch.setattr("agents.calling.records.recording.calibrate", lambda *learned: None)
    settings.LLM, settings.MODEL = "openai", model
    provider.enqueue(*(json.dumps(delta_payload(chunk)) for chunk in range(30)))
    chapter = make_active_chapter()
    add_prompts(chapter, 7 * 30, text="The lamp is dark. " * 9, reply="I light it again. " * 20)
    found = find_memory_behind(chapter, is_ending=True)
    assert found is not None
    assert found.estimate is not None
    request_end(chapter.pk, accept_calls=True)
    run_jobs()
    sent = LLMArtifact.objects.filter(agent_id=8)
    tokens = sum(layer["tokens"] for call in sent for layer in call.layers)
    assert found.calls == sent.count() == 30
    assert 0.8 * tokens <= found.estimate.input_tokens <= 1.25 * tokens
