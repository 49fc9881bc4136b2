"""Jobs are claimed once, kept by a lease, found again after a crash, and done in order."""

import json
import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone
from kombu.exceptions import OperationalError

from agents.ending import request_end
from agents.jobs import (
    MAX_ATTEMPTS,
    claim,
    due_jobs,
    finish,
    latest_jobs,
    queue_job,
    renew,
    requeue_expired,
)
from agents.locking import request_lock
from agents.models import Job
from agents.providers.exceptions import ProviderBusy, ProviderRefused
from agents.providers.scripted import Script, ScriptedProvider
from agents.recovery import recover
from agents.replies import keep_reply
from agents.summarizing import retry_summary
from agents.tasks import sweep
from agents.tests.playing import play, play_many, reroll
from agents.tests.replies import turn_delta, world_lock
from agents.work import work_on
from memory.models import MemoryBlock
from sessions.chapters import SetupChange, save_setup
from sessions.exceptions import InvalidInput, TurnInFlight, WrongState
from sessions.models import Session, Turn
from sessions.states import State
from sessions.tests.factories import add_prompts, make_active_chapter, make_chapter
from sessions.turns import open_prompt, open_reroll

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]


def expire(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


def make_due(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(run_after=timezone.now())


def chunks_of(chapter: Session) -> list[tuple[int, int]]:
    deltas = chapter.memory_blocks.filter(type=MemoryBlock.Type.TURN_DELTA)
    return list(deltas.values_list("from_prompt_index", "to_prompt_index"))


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def test_a_job_is_queued_once_and_claimed_once(chapter: Session, rung: list[str]) -> None:
    job = queue_job(chapter.pk, Job.Kind.NARRATE, "k")
    assert queue_job(chapter.pk, Job.Kind.NARRATE, "k") == job
    assert claim(job.pk) is not None
    assert claim(job.pk) is None


def test_a_worker_that_lost_its_lease_may_not_write(chapter: Session) -> None:
    job = claim(queue_job(chapter.pk, Job.Kind.NARRATE, "k").pk)
    assert job is not None
    expire(job)
    assert requeue_expired() == []
    other = claim(job.pk)
    assert other is not None
    assert not renew(job, partial_text="", progress={})
    assert not finish(job)
    assert finish(other)


def test_a_broker_out_of_reach_loses_nothing(
    provider: ScriptedProvider,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Callable[..., object],
) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise OperationalError("no broker")

    monkeypatch.setattr("agents.jobs.current_app.send_task", refuse)
    chapter = make_chapter()
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        request_lock(chapter.pk)
    rung: list[str] = []
    monkeypatch.setattr(
        "agents.jobs.current_app.send_task",
        lambda _name, *, kwargs, countdown: rung.append(kwargs["job_id"]),
    )
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        sweep()
    assert rung == [str(Job.objects.get().pk)]


def test_the_bell_rings_after_the_commit(
    rung: list[str], django_capture_on_commit_callbacks: Callable[..., object]
) -> None:
    chapter = make_chapter()
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        job = request_lock(chapter.pk)
        assert rung == []
    assert rung == [str(job.pk)]


# The lock


def test_an_empty_world_and_chapter_is_refused() -> None:
    chapter = make_chapter()
    save_setup(chapter.pk, SetupChange(world_text=" ", chapter_text="\n"))
    with pytest.raises(InvalidInput, match="empty"):
        request_lock(chapter.pk)
    chapter.refresh_from_db()
    assert chapter.state == State.DRAFT_TAB1


def test_locking_twice_is_refused(provider: ScriptedProvider) -> None:
    chapter = make_chapter()
    request_lock(chapter.pk)
    with pytest.raises(WrongState):
        request_lock(chapter.pk)
    assert Job.objects.count() == 1


def test_the_lock_is_stored_exactly_as_returned(
    provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    payload = {**world_lock(), "surplus": {"kept": [1, 2]}}
    provider.enqueue(json.dumps(payload))
    chapter = make_chapter()
    request_lock(chapter.pk)
    run_jobs()
    assert chapter.memory_blocks.get().json_payload == payload


def test_agent_0_gets_both_texts_and_the_roster(
    provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = make_chapter(agent_names={"2": "Kara"})
    request_lock(chapter.pk)
    run_jobs()
    prompt = provider.history[0].messages[-1].content
    assert "A harbour town" in prompt
    assert "The lighthouse is dark" in prompt
    assert "2: orange: Kara" in prompt


def test_one_repair_shows_the_model_its_error(
    provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    provider.enqueue('{"memory_type": "world_chapter_lock"}')
    chapter = make_chapter()
    request_lock(chapter.pk)
    run_jobs()
    chapter.refresh_from_db()
    assert chapter.state == State.ACTIVE
    assert len(provider.history) == 2
    roles = [message.role for message in provider.history[1].messages]
    assert roles == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize(
    "scripts", [["not json", "not json"], [ProviderRefused("401: the key was refused")]]
)
def test_a_failed_lock_makes_tab_1_editable_again(
    provider: ScriptedProvider, run_jobs: RunJobs, scripts: list[str | Exception]
) -> None:
    provider.enqueue(*scripts)
    chapter = make_chapter()
    request_lock(chapter.pk)
    run_jobs()
    chapter.refresh_from_db()
    assert (chapter.state, chapter.tab1_locked) == (State.DRAFT_TAB1, False)
    assert chapter.tab1.world_text
    assert latest_jobs(chapter)["lock"].error
    request_lock(chapter.pk)
    run_jobs()
    chapter.refresh_from_db()
    assert chapter.state == State.ACTIVE
    assert latest_jobs(chapter)["lock"].error == ""


# Memory


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


def test_a_refusal_waits_for_the_gm_s_retry(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    add_prompts(chapter, 6)
    play(chapter)
    provider.enqueue(ProviderRefused("401"))
    run_jobs()
    assert Job.objects.get().status == Job.Status.FAILED
    retry_summary(chapter.pk)
    run_jobs()
    assert chunks_of(chapter) == [(1, 7)]


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


def test_the_banner_stays_while_a_failed_chunk_is_due(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    add_prompts(chapter, 6)
    play(chapter)
    provider.enqueue(ProviderRefused("401"))
    run_jobs()
    add_prompts(chapter, 6)
    provider.enqueue("I answer.", ProviderRefused("401"))
    play(chapter)
    run_jobs()
    job = latest_jobs(chapter)["summarize"]
    assert (job.from_prompt_index, job.status, job.error) == (1, Job.Status.FAILED, "401")
    assert Job.objects.count() == 1


def test_an_end_that_fails_at_an_earlier_chunk_leaves_nothing_queued(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    add_prompts(chapter, 10)
    provider.enqueue(ProviderRefused("401"))
    request_end(chapter.pk)
    run_jobs()
    chapter.refresh_from_db()
    assert (chapter.state, chapter.is_ending) == (State.ACTIVE, False)
    assert latest_jobs(chapter)["summarize"].error == "401"
    retry_summary(chapter.pk)
    run_jobs()
    assert chunks_of(chapter) == [(1, 7)]


def test_seven_prompts_at_the_cap_can_be_summarised_in_a_small_window(
    chapter: Session,
    provider: ScriptedProvider,
    run_jobs: RunJobs,
    settings: pytest.FixtureRequest,
) -> None:
    settings.LLM, settings.MODEL = "openai", "a-model-nobody-knows"  # type: ignore[attr-defined]
    settings.MODEL_BY_AGENT = dict.fromkeys(range(10), "")  # type: ignore[attr-defined]
    add_prompts(chapter, 7, text="x" * 4_990, reply="y" * 3_000)
    provider.enqueue(json.dumps(turn_delta(1, 7)))
    request_end(chapter.pk)
    run_jobs()
    chapter.refresh_from_db()
    assert (chapter.state, chunks_of(chapter)) == (State.ENDED, [(1, 7)])


def test_a_later_chunk_waits_for_the_earlier_one(chapter: Session) -> None:
    add_prompts(chapter, 14)
    later = queue_job(
        chapter.pk, Job.Kind.SUMMARIZE, "8-14", from_prompt_index=8, to_prompt_index=14
    )
    assert claim(later.pk) is None


def test_a_task_delivered_twice_writes_one_block(
    chapter: Session, provider: ScriptedProvider
) -> None:
    add_prompts(chapter, 6)
    play(chapter)
    job = Job.objects.get()
    work_on(job.pk)
    work_on(job.pk)
    assert chunks_of(chapter) == [(1, 7)]
    assert sum("turn_delta" in request.messages[0].content for request in provider.history) == 1


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


def test_a_job_that_kills_its_worker_again_and_again_is_given_up(
    chapter: Session, provider: ScriptedProvider
) -> None:
    Session.objects.update(state=State.LOCKING)
    job = queue_job(chapter.pk, Job.Kind.LOCK, "lock")
    Job.objects.update(attempts=MAX_ATTEMPTS - 1)
    claimed = claim(job.pk)
    assert claimed is not None
    expire(claimed)
    recover()
    job.refresh_from_db()
    chapter.refresh_from_db()
    assert (job.status, chapter.state) == (Job.Status.FAILED, State.DRAFT_TAB1)


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


def test_a_reroll_during_a_summary_starts_it_again(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    add_prompts(chapter, 6)
    play(chapter)
    running = claim(Job.objects.get().pk)
    assert running is not None
    provider.enqueue("Another answer.")
    reroll(chapter)
    assert not finish(running)
    run_jobs()
    chunk = provider.history[-1].messages[-1].content
    assert "Another answer." in chunk
    assert chunks_of(chapter) == [(1, 7)]


def test_no_summary_is_claimed_while_its_prompt_is_being_rerolled(chapter: Session) -> None:
    add_prompts(chapter, 7)
    job = queue_job(chapter.pk, Job.Kind.SUMMARIZE, "1-7", from_prompt_index=1, to_prompt_index=7)
    open_reroll(chapter.pk, submission_key="r")
    assert not due_jobs().filter(pk=job.pk).exists()


def test_a_kept_text_can_be_the_seventh_reply(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    add_prompts(chapter, 6)
    provider.enqueue(Script("I step", error=ProviderBusy("cut")))
    play(chapter)
    keep_reply(chapter.pk)
    run_jobs()
    assert chunks_of(chapter) == [(1, 7)]


# The end


def test_ending_without_prompts_is_refused(chapter: Session) -> None:
    with pytest.raises(WrongState, match="no prompts"):
        request_end(chapter.pk)


def test_ending_while_a_reply_is_written_is_refused(chapter: Session) -> None:
    add_prompts(chapter, 1)
    open_prompt(chapter.pk, agent_slot=1, user_text="Go.", submission_key="k")
    with pytest.raises(TurnInFlight):
        request_end(chapter.pk)


def test_ending_with_everything_remembered_ends_at_once(chapter: Session) -> None:
    add_prompts(chapter, 7)
    Session.objects.update(last_summarized_prompt_index=7)
    assert request_end(chapter.pk).state == State.ENDED


def test_the_end_waits_for_a_summary_and_adds_the_rest(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    play_many(chapter, 9)
    ending = request_end(chapter.pk)
    assert (ending.state, ending.is_ending) == (State.SUMMARIZING, True)
    run_jobs()
    chapter.refresh_from_db()
    assert (chapter.state, chapter.is_ending) == (State.ENDED, False)
    assert chunks_of(chapter) == [(1, 7), (8, 9)]


def test_a_failed_last_delta_leaves_the_chapter_in_play(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    play_many(chapter, 2)
    request_end(chapter.pk)
    provider.enqueue(ProviderBusy("503"))
    run_jobs()
    chapter.refresh_from_db()
    assert (chapter.state, chapter.is_ending) == (State.ACTIVE, False)
    assert latest_jobs(chapter)["summarize"].error == "503"
    play_many(chapter, 5)
    run_jobs()
    assert chunks_of(chapter) == [(1, 7)]
    request_end(chapter.pk)
    chapter.refresh_from_db()
    assert chapter.state == State.ENDED


def test_reset_under_a_running_job_writes_nothing(
    chapter: Session, provider: ScriptedProvider
) -> None:
    add_prompts(chapter, 6)
    play(chapter)
    job = claim(Job.objects.get().pk)
    assert job is not None
    Session.objects.filter(pk=chapter.pk).delete()
    assert not renew(job, partial_text="", progress={})
    assert not finish(job)
    work_on(uuid.uuid4())
    assert not MemoryBlock.objects.exists()
    assert not Turn.objects.exists()


def test_the_memory_of_a_chapter_is_never_written_by_a_stale_delta(chapter: Session) -> None:
    from memory.blocks import write_delta

    add_prompts(chapter, 7)
    events = [event.pk for event in chapter.events.all()]

    def write(first: int, last: int, ids: list[uuid.UUID]) -> MemoryBlock | None:
        return write_delta(
            chapter.pk,
            from_prompt_index=first,
            to_prompt_index=last,
            payload=turn_delta(first, last),
            event_ids=ids,
        )

    assert write(1, 7, events[:-1]) is None
    assert write(8, 14, events) is None
    assert write(1, 7, events) is not None
    assert write(1, 7, events) is None
    chapter.refresh_from_db()
    assert (chapter.last_summarized_prompt_index, chapter.memory_blocks.count()) == (7, 1)
