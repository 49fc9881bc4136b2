"""Tests of turns in which somebody acts without a prompt.

The commit of one turn stores the job that plays the next turn. No such turn is lost, and none is
played twice.
"""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError
from pytest_django import Settings

from agents.calling.tests.exploring import native as native
from agents.flows.replies.choosing import edit_reply
from agents.flows.replies.going_on import go_on
from agents.flows.replies.turns import stop_reply
from agents.flows.tests.playing import play, reroll
from agents.llm.providers.failures.call_errors import ProviderTimeout
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import Job
from agents.running import work
from agents.running.job_kinds import Watch
from agents.running.jobs import queue_job
from agents.tests.second_mode import install
from sessions.models import Attempt, Session
from sessions.play.attempts import Writer, open_prompt
from sessions.play.breaking import stop_attempt
from storyengine.api.tests.calling import RunJobs, reply_is_running
from storyengine.exchange.forking import fork_chapter
from storyengine.tests.acting_alone import alone, job_of, jobs_of, run_as, told, watch
from storyengine.tests.lighthouse.keeper import KEEPER, WATCH
from storyengine.tests.lighthouse.mode import MODE
from storyengine.tests.lighthouse.narrator import NARRATOR
from storyengine.tests.playing_the_lighthouse import begin
from storyengine.tests.playing_the_lighthouse import chapter as chapter
from storyengine.tests.playing_the_lighthouse import lighthouse as lighthouse

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("native", "lighthouse")]


def _goes_on(writer: Writer, _chapter: Session) -> Writer:
    return writer


@pytest.mark.django_db(transaction=True)
def test_they_go_on_by_themselves_as_often_as_the_mode_says(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs, noticed: list[str]
) -> None:
    provider.enqueue("One.", "Two.", "Three.", "Four.")
    watch(chapter)
    assert jobs_of(chapter) == [("queued", 1)]
    assert noticed == [str(job_of(chapter).pk)]
    assert told(chapter) == [WATCH, "One."]
    assert run_jobs() == 2
    assert [event.agent_slot for event in chapter.events.all()] == [None, 1, 2, 1]
    assert told(chapter) == [WATCH, "One.", "Two.", "Three."]
    assert jobs_of(chapter) == [("done", 1), ("done", 2)]


def test_whoever_is_not_to_act_waits(chapter: Session, provider: ScriptedProvider) -> None:
    provider.enqueue("One.")
    play(chapter, "Go on.")
    assert not chapter.jobs.exists()


def test_the_row_comes_with_the_commit_or_not_at_all(
    chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    def queue_and_fail(*args: Any, **fields: Any) -> None:
        assert queue_job(*args, **fields).status == Job.Status.QUEUED
        raise OperationalError("disk I/O error")

    monkeypatch.setattr("agents.running.database.PAUSES", ())
    monkeypatch.setattr("agents.flows.replies.finishing.queue_job", queue_and_fail)
    provider.enqueue("One.")
    attempt = play(chapter, WATCH, key="k")
    assert (attempt.is_running, attempt.turn) == (True, None)
    assert not chapter.jobs.exists()


def test_two_notices_are_one_turn(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    provider.enqueue("One.", "Two.", "Three.")
    watch(chapter)
    first = job_of(chapter)
    run_jobs()
    work.work_on(first.pk)
    # The job is queued again, as it would be if its end had not been stored. Its attempt is
    # committed already and stays unchanged.
    Job.objects.filter(pk=first.pk).update(status=Job.Status.QUEUED)
    assert run_jobs() == 1
    assert told(chapter) == [WATCH, "One.", "Two.", "Three."]
    assert len(provider.history) == 3


def test_an_error_of_the_mode_costs_no_reply(
    provider: ScriptedProvider,
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    words = "The lamp is dark."

    def fail(_chapter: Session) -> None:
        raise KeyError(words)

    fails = replace(MODE.play, acts_next=fail)
    install(monkeypatch, settings, lighthouse=replace(MODE, play=fails))
    chapter = begin()
    provider.enqueue("One.")
    attempt = watch(chapter)
    assert f"who acts after attempt {attempt.pk} met an error of the program" in caplog.text
    assert words not in caplog.text
    assert not chapter.jobs.exists()


class TestEnds:
    def test_a_stop_ends_it(
        self, chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gate = asyncio.Event()
        provider.enqueue("One.", Script("Two is long.", gate=gate, gate_at=1), "Three.")
        watch(chapter, 2)

        async def stop_meanwhile(job: Job, seen: Watch) -> None:
            writing = asyncio.create_task(go_on(job, seen))
            await reply_is_running()
            await stop_reply(chapter.pk)
            await writing

        run_as(stop_meanwhile, job_of(chapter), monkeypatch)
        attempt = alone(chapter)
        assert (attempt.status, attempt.actor) == (Attempt.Status.STOPPED, 1)
        assert jobs_of(chapter) == [("done", 1)]
        # The user can retry a stopped attempt without a prompt. The keepers then go on.
        provider.queue.clear()
        provider.enqueue("Two.")
        retried = play(chapter, "", slot=1, key=attempt.submission_key)
        assert (retried.pk, retried.status) == (attempt.pk, Attempt.Status.COMMITTED)
        assert jobs_of(chapter) == [("done", 1), ("queued", 2)]

    @pytest.mark.parametrize("actor", [None, 2])
    def test_a_job_that_begins_again_leaves_a_failure_to_the_user(
        self,
        provider: ScriptedProvider,
        monkeypatch: pytest.MonkeyPatch,
        settings: Settings,
        run_jobs: RunJobs,
        actor: int | None,
    ) -> None:
        agent = NARRATOR if actor is None else KEEPER
        goes_on = replace(MODE.play, acts_next=partial(_goes_on, Writer(actor, agent.name)))
        install(monkeypatch, settings, lighthouse=replace(MODE, play=goes_on))
        chapter = begin()
        provider.enqueue("One.", ProviderTimeout("Too slow."), "Two.")
        watch(chapter)
        job = job_of(chapter)
        run_jobs()
        # The job is queued again, as it would be if its end had not been stored.
        Job.objects.filter(pk=job.pk).update(status=Job.Status.QUEUED)
        assert run_jobs() == 1
        assert (alone(chapter).actor, alone(chapter).status) == (actor, Attempt.Status.FAILED)
        assert len(provider.history) == 2

    def test_another_attempt_goes_on_anew_and_nobody_follows_the_earlier_one(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue("One.", "Otherwise.", "Two.", "Three.", "Four.")
        watch(chapter)
        assert reroll(chapter).status == Attempt.Status.COMMITTED
        assert jobs_of(chapter) == [("queued", 1), ("queued", 1)]
        run_jobs()
        assert chapter.prompt_index == 1
        chapter.refresh_from_db()
        assert (chapter.prompt_index, len(provider.history)) == (3, 4)

    def test_an_edited_reply_is_the_users(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue("One.", "Two.")
        watch(chapter)
        edit_reply(chapter.pk, 1, "By hand.")
        run_jobs()
        assert jobs_of(chapter) == [("done", 1)]
        assert len(provider.history) == 1

    def test_where_the_user_is_faster_nobody_acts(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue("One.", "Two.", "Three.")
        watch(chapter)
        own = open_prompt(chapter.pk, actor=1, words="Enough.", submission_key="own").attempt
        run_jobs()
        assert jobs_of(chapter) == [("done", 1)]
        assert stop_attempt(own)
        assert run_jobs() == 0
        assert len(provider.history) == 1

    def test_a_fork_waits_for_its_user(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue("One.", "Two.", "Three.")
        watch(chapter)
        fork = fork_chapter(chapter.pk, 1)
        run_jobs()
        fork.refresh_from_db()
        assert fork.prompt_index == 1
