"""Memory is written in the order of its stretches, even after failures and re-rolls."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from agents.calling.tests.bookkeeping import chunks_of, expire, make_due
from agents.flows.remembering.summarizing import queue_due_summary, write_memory_deltas
from agents.flows.replies.choosing import choose_reply
from agents.flows.telling.ending import request_end
from agents.flows.tests.playing import play, play_many, reroll
from agents.llm.providers.failures.call_errors import (
    ProviderBusy,
)
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from agents.prompting.layer_sources import (
    character_memory,
    present_memory,
)
from agents.prompting.layers import TIERS, Tier
from agents.prompting.sandwich import Source, Subject
from agents.running.job_kinds import Watch
from agents.running.jobs import claim, queue_job
from agents.running.recovery import recover
from agents.tests.replies import turn_delta
from memory.models import MemoryBlock
from memory.tests.factories import add_delta, write_delta
from sessions.models import THOUGHT, Attempt, Session, State
from sessions.play.attempts import Writer, open_prompt
from sessions.play.committing import commit_attempt
from sessions.play.events import NewEvent
from sessions.tests.factories import add_prompts, add_reply, make_active_chapter

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def test_invalid_json_twice_leaves_the_pointer_and_tries_again_later(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    add_prompts(chapter, 6)
    play(chapter)
    provider.enqueue("not json", "still not json")
    run_jobs()
    chapter.refresh_from_db()
    job = Job.objects.get()
    assert (chapter.state, chapter.last_summarized_prompt_index) == (State.ACTIVE, 0)
    assert (job.status, bool(job.error)) == (Job.Status.QUEUED, True)
    assert job.run_after > timezone.now()
    make_due(job)
    run_jobs()
    chapter.refresh_from_db()
    assert chapter.last_summarized_prompt_index == 7


def test_memory_has_only_prompts_of_the_stretch_and_the_record_what_came(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    add_prompts(chapter, 6)
    play(chapter)
    event = {"event": "the lamp fell", "cause": "", "effect": "", "participants": []}
    wrong: list[Any] = [[5, 12], ["five"], "5 or 6", None]
    came = json.dumps(
        turn_delta(1, 7)
        | {
            "major_events": [event | {"at": at} for at in wrong],
            "canon_locks": ["the lamp is broken"],
            "canon_locks_at": [99],
        }
    )
    provider.enqueue(came)
    run_jobs()
    payload = chapter.memory_blocks.get(type=MemoryBlock.Type.TURN_DELTA).json_payload
    assert payload["major_events"] == [event | {"at": [5]}, event, event, event]
    assert "canon_locks_at" not in payload
    assert chapter.llm_artifacts.get(agent="memory").raw_output_ref == came


def test_a_failed_first_chunk_is_made_up_for_in_order(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    add_prompts(chapter, 6)
    play(chapter)
    provider.enqueue(ProviderBusy("503"))
    run_jobs()
    add_prompts(chapter, 6)
    play(chapter)
    run_jobs()
    chapter.refresh_from_db()
    assert chunks_of(chapter) == [(1, 7), (8, 14)]
    assert (chapter.state, chapter.last_summarized_prompt_index) == (State.ACTIVE, 14)


def test_a_worker_killed_while_summarising_is_made_up_for(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    add_prompts(chapter, 6)
    play(chapter)
    job = claim(Job.objects.get().pk)
    assert job is not None
    expire(job)
    recover()
    run_jobs()
    chapter.refresh_from_db()
    assert chunks_of(chapter) == [(1, 7)]
    assert chapter.state == State.ACTIVE


def test_agent_8_gets_memory_so_far_and_the_chunk_only(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    play_many(chapter, 7)
    run_jobs()
    play_many(chapter, 7)
    run_jobs()
    prompt = provider.history[-1].messages[-1].content
    memory, chunk = prompt.split("## RECENT_CONTEXT_CHUNK")
    assert "CANON-7" in memory
    assert "7) " not in chunk
    assert "8) " in chunk
    assert "14) " in chunk


def test_a_summary_that_runs_may_end_and_counts_while_its_attempt_is_chosen(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    add_prompts(chapter, 6)
    first = play(chapter)
    running = claim(Job.objects.get().pk)
    assert running is not None
    provider.enqueue("Another answer.")
    second = reroll(chapter)
    async_to_sync(write_memory_deltas)(running, Watch())
    assert "Another answer." not in provider.history[-1].messages[-1].content
    chapter.refresh_from_db()
    assert (chapter.last_summarized_prompt_index, chapter.state) == (0, State.ACTIVE)
    # The chosen attempt has no summary yet, because a summary is asked for only with the next
    # prompt.
    assert run_jobs() == 0
    choose_reply(chapter.pk, 7, first.pk)
    chapter.refresh_from_db()
    assert chapter.last_summarized_prompt_index == 7
    choose_reply(chapter.pk, 7, second.pk)
    chapter.refresh_from_db()
    assert chapter.last_summarized_prompt_index == 0
    play(chapter)
    run_jobs()
    summary = next(one for one in reversed(provider.history) if "CHUNK" in str(one.messages))
    assert "Another answer." in summary.messages[-1].content
    assert chunks_of(chapter) == [(1, 7), (1, 7)]
    chapter.refresh_from_db()
    assert chapter.last_summarized_prompt_index == 7


def test_one_that_was_cancelled_is_queued_again_once_its_attempt_is_chosen_again(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    add_prompts(chapter, 6)
    first = play(chapter)
    reroll(chapter)
    choose_reply(chapter.pk, 7, first.pk)
    job = Job.objects.get()
    assert job.status == Job.Status.CANCELLED
    play(chapter, "On we go.")
    job.refresh_from_db()
    assert (job.status, job.attempt) == (Job.Status.QUEUED, first)
    assert run_jobs() == 1
    assert chunks_of(chapter) == [(1, 7)]
    chapter.refresh_from_db()
    assert chapter.last_summarized_prompt_index == 7


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("budget", [None, 100_000])
@pytest.mark.parametrize("source", [character_memory, present_memory])
def test_no_source_of_memory_tells_a_narrator_the_turn_that_it_writes_again(
    chapter: Session, source: Source, budget: int | None, tier: Tier
) -> None:
    add_prompts(chapter, 14)
    add_delta(chapter, 1, 7, turn_delta(1, 7, canon_locks=["The bell is cracked."]))
    add_delta(chapter, 8, 14, turn_delta(8, 14, canon_locks=["The lamp is lit."]))
    chapter.last_summarized_prompt_index = 14
    chapter.save()

    def told(before: int | None) -> str:
        subject = Subject(chapter, None, before, budget_tokens=budget)
        return " ".join(piece.text for piece in source(subject, tier))

    assert "The lamp is lit." not in told(14)
    # In a small window, the memory of a character omits each delta whose prompts are in the recent
    # context.
    if budget is None or tier != "minimal" or source is not character_memory:
        assert "The bell is cracked." in told(14)
        assert "The lamp is lit." in told(None)


def test_a_stretch_with_nothing_to_tell_is_an_empty_delta_without_a_call(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    def goes_on(_chapter: Session, actor: int | None) -> Writer:
        return Writer(actor, needs_words=False)

    for number in range(7):
        thinks = open_prompt(
            chapter.pk, actor=1, words="", submission_key=str(number), answers=goes_on
        ).attempt
        assert commit_attempt(thinks, [NewEvent("He lies.", 1, kind=THOUGHT)])
    chapter.refresh_from_db()
    assert queue_due_summary(chapter)
    run_jobs()
    assert provider.history == []
    delta = MemoryBlock.objects.get(type=MemoryBlock.Type.TURN_DELTA)
    assert (delta.from_prompt_index, delta.to_prompt_index, delta.audience) == (1, 7, [1, 2, 3])
    assert delta.json_payload == {"memory_type": "turn_delta"}
    chapter.refresh_from_db()
    assert (chapter.last_summarized_prompt_index, chapter.state) == (7, State.ACTIVE)


def test_a_stretch_has_one_delta_for_each_attempt_at_its_last_turn(chapter: Session) -> None:
    add_prompts(chapter, 7)
    first = chapter.turns.get(number=7).chosen
    other = add_reply(chapter, 7, "Another reply.")

    def write(attempt: Attempt) -> MemoryBlock | None:
        return write_delta(attempt, from_prompt_index=1, payload=turn_delta(1, 7))

    # The delta of an attempt that is not chosen is stored, but does not count.
    assert write(first) is not None
    chapter.refresh_from_db()
    assert chapter.last_summarized_prompt_index == 0
    assert write(other) is not None
    assert write(other) is None
    chapter.refresh_from_db()
    assert (chapter.last_summarized_prompt_index, chapter.memory_blocks.count()) == (7, 2)


@pytest.mark.parametrize("status", [None, Job.Status.FAILED, Job.Status.CANCELLED])
def test_a_chapter_that_waits_for_no_summary_is_put_back_in_play(
    chapter: Session, status: Job.Status | None
) -> None:
    add_prompts(chapter, 7)
    if status is not None:
        queue_job(chapter.pk, Job.Kind.SUMMARIZE, "1-7", from_prompt_index=1, to_prompt_index=7)
        Job.objects.update(status=status)
    Session.objects.update(state=State.SUMMARIZING, is_ending=True)
    other = make_active_chapter(state=State.SUMMARIZING)
    recover(chapter.pk)
    chapter.refresh_from_db()
    other.refresh_from_db()
    assert (chapter.state, chapter.is_ending) == (State.ACTIVE, False)
    assert other.state == State.SUMMARIZING
    recover()
    other.refresh_from_db()
    assert other.state == State.ACTIVE


def test_agent_8_is_held_to_the_chunk_and_the_cast(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    add_prompts(chapter, 7)
    provider.enqueue(json.dumps(turn_delta(1, 7)))
    request_end(chapter.pk)
    run_jobs()
    schema = provider.history[0].json_schema
    assert schema is not None
    chunk = schema["properties"]["range"]["properties"]
    assert (chunk["from_marker"]["enum"], chunk["to_marker"]["enum"]) == (["1"], ["7"])
    action = schema["properties"]["character_actions"]["items"]["properties"]
    assert action["agent_slot"]["enum"] == [0, *chapter.selected_agent_slots]


@pytest.mark.parametrize("size", [3, 20])
def test_a_summary_covers_as_many_prompts_as_the_chapter_says(
    provider: ScriptedProvider, run_jobs: RunJobs, size: int
) -> None:
    """A stretch begins after the summary pointer, which is at prompt 2 in this test."""
    chapter = make_active_chapter(chunk_size_prompts=size, last_summarized_prompt_index=2)
    add_prompts(chapter, 2)
    add_delta(chapter, 1, 2, turn_delta(1, 2))
    add_prompts(chapter, size - 2)
    play(chapter)
    assert not Job.objects.exists()
    play(chapter)
    run_jobs()
    assert chunks_of(chapter) == [(1, 2), (3, size + 2)]
    play(chapter)
    request_end(chapter.pk)
    run_jobs()
    assert chunks_of(chapter) == [(1, 2), (3, size + 2), (size + 3, size + 3)]
