"""Tests of a scene that is written again as another version of its draft."""

import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from agents.exceptions import BudgetSpent, ConsentMissing
from agents.flows.telling.ending import reopen
from agents.flows.telling.narrating import request_build
from agents.flows.telling.rebuilding import estimate_rebuild, request_rebuild
from agents.flows.telling.tests.narrations import (
    make_chapter_of_two_scenes,
    make_ended_chapter,
    words,
)
from agents.llm.providers.failures.call_errors import ProviderRefused
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from agents.running.jobs import claim
from agents.running.recovery import recover
from memory.models import NarrativeDraft
from memory.prose.drafts import telling_of
from sessions.exceptions import KeyReused, UnknownChapter, WrongState
from sessions.models import Session, State
from sessions.tests.factories import add_reply
from testing.refusals import DRAFTS_UNCHANGED

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]
FIRST, SECOND, AGAIN = words(700, "first"), words(700, "second"), words(700, "again")


@pytest.fixture
def draft(small_window: None, provider: ScriptedProvider, run_jobs: RunJobs) -> NarrativeDraft:
    """Build a draft of two scenes."""
    chapter = make_chapter_of_two_scenes()
    provider.enqueue(FIRST, SECOND)
    request_build(chapter.pk)
    run_jobs()
    provider.history.clear()
    return NarrativeDraft.objects.get()


def newest() -> NarrativeDraft:
    return NarrativeDraft.objects.order_by("created_at").last() or pytest.fail("no draft")


def test_one_scene_is_written_again_and_the_old_draft_stays(
    draft: NarrativeDraft, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    provider.enqueue(AGAIN)
    job = request_rebuild(draft.session_id, draft.pk, 1)
    run_jobs()
    assert len(provider.history) == 1
    assert NarrativeDraft.objects.count() == 2
    assert NarrativeDraft.objects.get(pk=draft.pk).chapter_text == f"{FIRST}\n\n{SECOND}"
    telling = telling_of(newest())
    assert telling.texts == [AGAIN, SECOND]
    assert [one.job_id for one in telling.scenes] == [str(job.pk), str(draft.job_id)]
    assert newest().target_words == draft.target_words
    assert Session.objects.get().state == State.ENDED


def test_the_narrator_is_told_the_scenes_around(
    draft: NarrativeDraft, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    provider.enqueue(AGAIN)
    request_rebuild(draft.session_id, draft.pk, 2)
    run_jobs()
    prompt = provider.history[0].messages[-1].content
    assert "first699." in prompt
    assert "START_OF_THE_SCENE_AFTER" not in prompt
    assert "8) beat 8" in prompt
    assert "1) beat 1\n" not in prompt
    provider.enqueue(words(700, "new"))
    request_rebuild(draft.session_id, newest().pk, 1)
    run_jobs()
    prompt = provider.history[1].messages[-1].content
    assert "END_OF_THE_SCENE_BEFORE\n" not in prompt
    assert telling_of(newest()).texts == [words(700, "new"), AGAIN]


def test_a_failure_keeps_the_draft_and_says_so(
    draft: NarrativeDraft, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    provider.enqueue(ProviderRefused("The model said no."))
    job = request_rebuild(draft.session_id, draft.pk, 1)
    run_jobs()
    job.refresh_from_db()
    assert job.status == Job.Status.FAILED
    assert DRAFTS_UNCHANGED in job.error
    assert Session.objects.get().state == State.ENDED
    assert list(NarrativeDraft.objects.all()) == [draft]


def test_a_worker_killed_while_rebuilding_leaves_the_work_to_another(
    draft: NarrativeDraft, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    claim(request_rebuild(draft.session_id, draft.pk, 2).pk)
    Job.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    recover()
    provider.enqueue(AGAIN)
    run_jobs()
    assert telling_of(newest()).texts == [FIRST, AGAIN]


class TestKeys:
    def test_a_second_request_under_the_key_makes_no_second_call(
        self, draft: NarrativeDraft, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue(AGAIN)
        job = request_rebuild(draft.session_id, draft.pk, 1, submission_key="once")
        assert request_rebuild(draft.session_id, draft.pk, 1, submission_key="once") == job
        run_jobs()
        assert request_rebuild(draft.session_id, draft.pk, 1, submission_key="once") == job
        assert run_jobs() == 0
        assert NarrativeDraft.objects.count() == 2

    def test_a_failed_one_is_tried_again_under_its_key(
        self, draft: NarrativeDraft, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue(ProviderRefused("The model said no."), AGAIN)
        job = request_rebuild(draft.session_id, draft.pk, 1, submission_key="k" * 100)
        run_jobs()
        assert request_rebuild(draft.session_id, draft.pk, 1, submission_key="k" * 100) == job
        run_jobs()
        assert telling_of(newest()).texts == [AGAIN, SECOND]

    def test_a_key_stands_for_one_scene(self, draft: NarrativeDraft) -> None:
        request_rebuild(draft.session_id, draft.pk, 1, submission_key="once")
        with pytest.raises(KeyReused):
            request_rebuild(draft.session_id, draft.pk, 2, submission_key="once")


class TestRefusals:
    def test_an_unknown_scene_or_draft(self, draft: NarrativeDraft) -> None:
        for draft_id, number in ((draft.pk, 0), (draft.pk, 3), (uuid.uuid4(), 1)):
            with pytest.raises(UnknownChapter):
                request_rebuild(draft.session_id, draft_id, number)

    def test_a_chapter_in_play(self, draft: NarrativeDraft) -> None:
        reopen(draft.session_id)
        with pytest.raises(WrongState, match="ended session"):
            request_rebuild(draft.session_id, draft.pk, 1)

    def test_while_another_draft_is_written(self, draft: NarrativeDraft) -> None:
        request_build(draft.session_id)
        with pytest.raises(WrongState, match="being written already"):
            request_rebuild(draft.session_id, draft.pk, 1)

    def test_a_draft_of_another_reply_than_the_chosen_one(self, draft: NarrativeDraft) -> None:
        add_reply(Session.objects.get(), 14, "Another end.")
        with pytest.raises(WrongState, match="played on"):
            request_rebuild(draft.session_id, draft.pk, 1)

    def test_a_draft_whose_scenes_are_not_recorded(self) -> None:
        chapter = make_ended_chapter()
        old = NarrativeDraft.objects.create(
            session=chapter, target_words=200, source_snapshot={}, chapter_text="Old."
        )
        with pytest.raises(WrongState, match="not recorded"):
            request_rebuild(chapter.pk, old.pk, 1)

    def test_without_consent_or_budget_nothing_is_queued(
        self, draft: NarrativeDraft, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for error in (ConsentMissing("example.org"), BudgetSpent("The budget is spent.")):

            def refuse(*_arguments: object, error: Exception = error) -> None:
                raise error

            monkeypatch.setattr("agents.flows.telling.rebuilding.check_allowed", refuse)
            with pytest.raises(type(error)):
                request_rebuild(draft.session_id, draft.pk, 1)
        assert Session.objects.get().state == State.ENDED
        assert Job.objects.count() == 1


def test_the_estimate_is_of_one_call_and_close_to_it(
    draft: NarrativeDraft, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    chapter = Session.objects.get()
    estimate = estimate_rebuild(chapter, draft.pk, 2)
    assert estimate.calls == 1
    provider.enqueue(AGAIN)
    request_rebuild(chapter.pk, draft.pk, 2)
    run_jobs()
    artifact = chapter.llm_artifacts.order_by("created_at").last()
    assert artifact is not None
    sent = sum(layer["tokens"] for layer in artifact.layers)
    assert sent <= estimate.input_tokens <= sent + 100
