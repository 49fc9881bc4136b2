"""Tests of agent 9: it narrates a chapter whole or by scenes, continues a short text, and resumes
after a failure."""

import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from agents.calling import admission
from agents.calling.admission import Reservation
from agents.exceptions import RateLimited
from agents.flows.telling.narrating import cancel_build, plan_build, read_inputs, request_build
from agents.flows.telling.scene_requests import ENDING_CHARACTERS, Material, fit_scenes
from agents.flows.telling.scenes import transcript_weights
from agents.flows.telling.tests.narrations import (
    make_chapter_of_two_scenes,
    make_ended_chapter,
    make_thoughtful_chapter,
    prompt_of_second_scene,
    words,
)
from agents.llm.providers.base import ModelRequest
from agents.llm.providers.failures.call_errors import ProviderBusy
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job, LLMArtifact
from agents.prompting.fitting import AssembledPrompt
from agents.prompting.sent_layers import SentLayer
from agents.running.jobs import claim, latest_jobs
from agents.running.recovery import recover
from agents.tests.replies import turn_delta
from memory.models import NarrativeDraft
from memory.prose.drafts import telling_of
from memory.tests.factories import add_delta
from sessions.exceptions import WrongState
from sessions.language.words import count_words
from sessions.models import Event, Session, State
from sessions.tests.factories import add_prompts

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]


def test_the_narrator_gets_style_memory_and_every_prompt(
    provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = make_ended_chapter(narrative_agent_definition_text="Long silences.")
    provider.enqueue(words(200))
    request_build(chapter.pk)
    run_jobs()
    prompt = provider.history[0].messages[-1].content
    parts = ["Long silences.", "CANON-7", "CANON-14", "1) beat 1", "14) beat 14"]
    places = [prompt.index(part) for part in parts]
    assert places == sorted(places)
    assert NarrativeDraft.objects.get().chapter_text == words(200)


def test_a_draft_has_the_prompts_after_a_turn_of_thoughts_alone(
    provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = make_thoughtful_chapter(200)
    provider.enqueue(words(200))
    job = request_build(chapter.pk)
    run_jobs()
    job.refresh_from_db()
    assert job.scenes == [{"first": 1, "last": 22, "target_words": 200}]
    told = provider.history[0].messages[-1].content
    places = [told.index(part) for part in ("7) beat 7", "8)\n\n9)", "21) beat 21", "\n22)")]
    assert places == sorted(places)
    assert "He lies." not in told
    assert NarrativeDraft.objects.get().source_snapshot["max_prompt_index_used"] == 22


def test_what_falls_short_is_continued_and_never_repeated(
    provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = make_ended_chapter()
    provider.enqueue(words(120), words(70, "more"), words(70, "more"))
    request_build(chapter.pk)
    run_jobs()
    text = NarrativeDraft.objects.get().chapter_text
    assert text == f"{words(120)}\n\n{words(70, 'more')}"
    assert len(provider.history) == 2


def test_a_narrator_that_has_told_everything_is_not_pressed(
    provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = make_ended_chapter()
    provider.enqueue(words(80), "DONE")
    request_build(chapter.pk)
    run_jobs()
    assert NarrativeDraft.objects.get().chapter_text == words(80)
    assert len(provider.history) == 2


@pytest.mark.parametrize(
    ("end", "kept", "calls"),
    [
        ("He slept.\n\nDONE", "He slept.", 2),
        ("He slept.\n\n**DONE.**", "He slept.", 2),
        ('He slept.\n\n"Done."', 'He slept.\n\n"Done."', 3),
    ],
)
def test_the_word_that_ends_a_continuation_is_not_told(
    provider: ScriptedProvider, run_jobs: RunJobs, end: str, kept: str, calls: int
) -> None:
    chapter = make_ended_chapter()
    provider.enqueue(words(80), end, "DONE")
    request_build(chapter.pk)
    run_jobs()
    assert NarrativeDraft.objects.get().chapter_text == f"{words(80)}\n\n{kept}"
    assert len(provider.history) == calls


def test_a_small_model_reaches_5000_words_scene_by_scene(
    small_window: None, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = make_ended_chapter(28)
    Session.objects.update(target_words=5_000)
    calls: list[ModelRequest] = []

    def write(request: ModelRequest) -> str:
        calls.append(request)
        return words(350, f"call{len(calls)}x")

    provider.fallback = write
    request_build(chapter.pk)
    run_jobs()
    draft = NarrativeDraft.objects.get()
    assert 4_600 <= draft.word_count <= 6_000
    assert all(request.max_output_tokens <= 1000 for request in calls)
    job = latest_jobs(chapter)["narrate"]
    assert job.progress["scene"] == job.progress["scenes"] > 4


def test_a_scene_gets_its_stretch_and_the_end_of_the_scene_before(
    small_window: None, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    second = prompt_of_second_scene(provider, run_jobs)[-1].content
    assert "8) beat 8" in second
    assert "7) beat 7" not in second
    assert "first699." in second
    assert "CANON-7" in second


def test_a_draft_knows_its_scenes(
    small_window: None, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = make_chapter_of_two_scenes()
    texts = [words(700, "first"), words(700, "second")]
    provider.enqueue(*texts)
    job = request_build(chapter.pk)
    run_jobs()
    telling = telling_of(NarrativeDraft.objects.get())
    assert telling.texts == texts
    assert [(one.first, one.last, one.job_id) for one in telling.scenes] == [
        (1, 7, str(job.pk)),
        (8, 14, str(job.pk)),
    ]


@pytest.mark.parametrize("finished", [0, 1])
def test_a_later_scene_that_cannot_fit_is_refused_before_any_is_paid_for(
    small_window: None, provider: ScriptedProvider, run_jobs: RunJobs, finished: int
) -> None:
    chapter = make_ended_chapter(42)
    Event.objects.update(text="The ice moves under the boats. " * 30)
    job = request_build(chapter.pk)
    # The build began with another model, whose window had room for the long third scene.
    stretches = [(1, 2), (3, 4), (5, 42)]
    Job.objects.update(
        scenes=[{"first": a, "last": b, "target_words": 300} for a, b in stretches],
        finished_scenes=[words(300)] * finished,
    )
    run_jobs()
    chapter.refresh_from_db()
    job.refresh_from_db()
    assert not provider.history
    assert (chapter.state, job.status) == (State.ENDED, Job.Status.FAILED)
    assert "tokens too long" in job.error
    assert ("One finished scene is kept" in job.error) == bool(finished)


def test_scenes_are_fitted_with_as_much_of_the_one_before_as_there_can_be(
    small_window: None,
) -> None:
    chapter = make_ended_chapter(14)
    material = Material(chapter, plan_build(chapter, transcript_weights(chapter, 14), 1_200))
    job = Job(session=chapter, inputs=read_inputs(chapter))
    layer = "END_OF_THE_SCENE_BEFORE"
    first, second = fit_scenes(job, material)
    assert layer not in [one.name for one in first.layers]
    assert _record(second, layer).characters >= ENDING_CHARACTERS
    job.finished_scenes = ["The lamp was lit."]
    (second,) = fit_scenes(job, material)
    assert _record(second, layer).characters == len(f"## {layer}\nThe lamp was lit.")


def _record(prompt: AssembledPrompt, name: str) -> SentLayer:
    return next(one for one in prompt.layers if one.name == name)


def test_a_failed_build_keeps_drafts_and_is_resumed(
    small_window: None, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = make_chapter_of_two_scenes()
    NarrativeDraft.objects.create(
        session=chapter, target_words=1, source_snapshot={}, chapter_text="An earlier draft."
    )
    provider.enqueue(words(700, "first"), ProviderBusy("503"))
    request_build(chapter.pk)
    run_jobs()
    chapter.refresh_from_db()
    job = latest_jobs(chapter)["narrate"]
    assert (chapter.state, job.status) == (State.ENDED, Job.Status.FAILED)
    assert NarrativeDraft.objects.get().chapter_text == "An earlier draft."
    provider.enqueue(words(700, "second"))
    request_build(chapter.pk)
    run_jobs()
    assert NarrativeDraft.objects.latest("created_at").chapter_text == (
        f"{words(700, 'first')}\n\n{words(700, 'second')}"
    )


def test_a_worker_killed_while_narrating_resumes_after_its_finished_scenes(
    small_window: None, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = make_chapter_of_two_scenes()
    job = claim(request_build(chapter.pk).pk)
    Job.objects.update(
        scenes=[
            {"first": 1, "last": 7, "target_words": 600},
            {"first": 8, "last": 14, "target_words": 600},
        ],
        finished_scenes=[words(700, "first")],
        lease_until=timezone.now() - timedelta(seconds=1),
    )
    recover()
    provider.enqueue(words(700, "second"))
    run_jobs()
    chapter.refresh_from_db()
    assert job is not None
    assert chapter.state == State.ENDED
    assert NarrativeDraft.objects.get().chapter_text.startswith("first0")
    assert len(provider.history) == 1


def test_a_cancelled_build_leaves_earlier_drafts_alone(
    provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = make_ended_chapter()
    request_build(chapter.pk)
    assert cancel_build(chapter.pk).state == State.ENDED
    run_jobs()
    assert not NarrativeDraft.objects.exists()
    assert not provider.history
    with pytest.raises(WrongState):
        cancel_build(chapter.pk)


def test_the_embedded_model_that_comes_to_no_end_is_stopped_near_the_target(
    provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = make_ended_chapter(target_words=200)
    told = "".join(f"It rained all night again, {number}. " for number in range(100))
    provider.enqueue(told)
    request_build(chapter.pk)
    run_jobs()
    draft = NarrativeDraft.objects.get()
    assert 200 <= draft.word_count <= 230
    assert draft.chapter_text.endswith(".")
    assert len(provider.history) == 1
    made = LLMArtifact.objects.get()
    assert made.error == ""
    assert len(made.raw_output_ref.split()) == 230


@pytest.mark.parametrize("cap", ["CHAPTER_TOKENS", "CALLS_PER_MINUTE"])
def test_a_continuation_that_a_cap_stops_leaves_the_words_that_were_paid_for(
    provider: ScriptedProvider,
    run_jobs: RunJobs,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    cap: str,
) -> None:
    monkeypatch.setattr("agents.flows.telling.narrating.RATE_PAUSE_SECONDS", 0.0)
    chapter = make_ended_chapter(target_words=600)
    provider.enqueue(words(300), words(300, "more"))
    settings.LLM, settings.MODEL = "openai", "nobody-knows"
    setattr(settings, cap, 1)
    request_build(chapter.pk)
    run_jobs()
    assert len(provider.history) == 1
    assert NarrativeDraft.objects.get().chapter_text == words(300)


def test_a_continuation_waits_for_the_cap_on_calls_in_a_minute(
    provider: ScriptedProvider, run_jobs: RunJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    chapter = make_ended_chapter(target_words=600)
    provider.enqueue(words(300), words(300, "more"))
    refusals = [RateLimited("Too many."), RateLimited("Too many.")]

    def count(session_id: uuid.UUID, reservation: Reservation) -> int:
        if provider.history and refusals:
            raise refusals.pop()
        return add_row(session_id, reservation)

    add_row = admission._add_row
    monkeypatch.setattr("agents.flows.telling.narrating.RATE_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr("agents.calling.admission._add_row", count)
    request_build(chapter.pk)
    run_jobs()
    assert len(NarrativeDraft.objects.get().chapter_text.split()) == 600


@pytest.mark.parametrize(
    "sentence",
    ["码头上传来脚步声她举起灯。", "カーテンが揺れてハナが出る。", "ม่านขยับแล้วมานีก็เดินออก "],
)
def test_a_scene_in_a_script_without_blanks_is_written_by_one_call(
    provider: ScriptedProvider, run_jobs: Callable[[], int], sentence: str
) -> None:
    chapter = make_ended_chapter(target_words=400)
    told = sentence * (400 // count_words(sentence))
    provider.enqueue(told, "more")
    request_build(chapter.pk)
    run_jobs()
    draft = NarrativeDraft.objects.get()
    assert draft.chapter_text == told.strip()
    assert 368 <= draft.word_count <= 400
    assert len(provider.history) == 1


@pytest.mark.parametrize(
    ("said", "least"),
    [("The lamp is out. ", 1.6), ("등대가 무너지고 민수가 나온다. ", 2.2), ("ม่านขยับแล้ว ", 1.8)],
)
def test_a_narrator_has_the_tokens_that_the_words_of_a_script_cost(
    provider: ScriptedProvider, run_jobs: Callable[[], int], said: str, least: float
) -> None:
    chapter = make_ended_chapter(prompts=0, target_words=400)
    add_prompts(chapter, 3, text=said * 20)
    Session.objects.update(last_summarized_prompt_index=3)
    add_delta(chapter, 1, 3, turn_delta(1, 3))
    provider.enqueue("x " * 400)
    request_build(chapter.pk)
    run_jobs()
    assert provider.history[0].max_output_tokens >= 400 * least * 1.3
