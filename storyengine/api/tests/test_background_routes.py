import asyncio
from typing import Any

import pytest

from agents.llm.providers.failures.call_errors import ProviderRefused, ProviderTimeout
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job, ProviderConsent
from agents.running.database import in_database
from memory.models import NarrativeDraft
from sessions.models import Session, State
from sessions.tests.factories import add_prompts, make_active_chapter, make_chapter
from storyengine.api.tests.calling import (
    RunJobs,
    acall,
    address,
    assert_problem,
    call,
    in_loop,
    waited,
)

pytestmark = pytest.mark.django_db

UNKNOWN = "/api/session/00000000-0000-0000-0000-000000000000"


def ended_chapter() -> Session:
    chapter = make_active_chapter(state=State.ENDED)
    add_prompts(chapter, 2)
    return chapter


class TestLock:
    def test_it_answers_at_once_with_the_chapter(
        self, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        chapter = make_chapter()
        response = call("POST", address(chapter, "lock"))
        document = response.json()
        assert response.status_code == 202
        assert (document["state"], document["tab1_locked"]) == ("LOCKING", False)
        assert [(job["kind"], job["status"], job["error"]) for job in document["jobs"]] == [
            ("lock", "queued", ""),
        ]
        run_jobs()
        document = call("GET", address(chapter)).json()
        assert (document["state"], document["tab1_locked"]) == ("ACTIVE", True)
        assert document["memory_blocks"][0]["type"] == "world_chapter_lock"
        assert document["jobs"][0]["status"] == "done"

    def test_asked_to_wait_it_answers_when_done(
        self, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        response = waited(make_chapter(), "lock", run_jobs)
        assert response.status_code == 200
        assert response.headers["Preference-Applied"] == "wait=60"
        assert response.json()["state"] == "ACTIVE"

    def test_a_failure_is_502_with_the_job(
        self, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue(ProviderRefused("The key is wrong."))
        chapter = make_chapter()
        problem = assert_problem(waited(chapter, "lock", run_jobs), 502, "job-failed")
        assert "The key is wrong." in problem["detail"]
        assert (problem["job"]["kind"], problem["job"]["status"]) == ("lock", "failed")
        assert call("GET", address(chapter)).json()["state"] == "DRAFT_TAB1"

    def test_without_consent_it_is_refused_with_the_host(self, provider: ScriptedProvider) -> None:
        provider.host = "models.example"
        chapter = make_chapter()
        problem = assert_problem(call("POST", address(chapter, "lock")), 403, "consent-missing")
        assert problem["host"] == "models.example"
        assert call("GET", address(chapter)).json()["state"] == "DRAFT_TAB1"
        ProviderConsent.objects.create(host="models.example")
        assert call("POST", address(chapter, "lock")).status_code == 202


class TestEnd:
    def test_it_waits_for_the_last_memory(
        self, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        chapter = make_active_chapter()
        add_prompts(chapter, 2)
        response = call("POST", address(chapter, "end"))
        document = response.json()
        assert response.status_code == 202
        assert (document["state"], document["is_ending"]) == ("SUMMARIZING", True)
        run_jobs()
        document = call("GET", address(chapter)).json()
        assert (document["state"], document["last_summarized_prompt_index"]) == ("ENDED", 2)

    def test_a_last_memory_that_fails_is_502_and_the_chapter_stays_in_play(
        self, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue(ProviderTimeout("The model took too long."))
        chapter = make_active_chapter()
        add_prompts(chapter, 2)
        problem = assert_problem(waited(chapter, "end", run_jobs), 502, "job-failed")
        assert problem["job"]["kind"] == "summarize"
        assert call("GET", address(chapter)).json()["state"] == "ACTIVE"


class TestRetrySummary:
    def test_it_writes_the_memory_that_failed(
        self, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        chapter = make_active_chapter()
        add_prompts(chapter, 7)
        response = waited(chapter, "retry-summary", run_jobs)
        assert response.status_code == 200
        assert response.json()["last_summarized_prompt_index"] == 7

    def test_a_failure_is_502_although_it_will_be_tried_again(
        self, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue(ProviderTimeout("The model took too long."))
        chapter = make_active_chapter()
        add_prompts(chapter, 7)
        problem = assert_problem(waited(chapter, "retry-summary", run_jobs), 502, "job-failed")
        assert problem["job"]["status"] == "queued"
        assert problem["detail"] == "The model took too long."


class TestBuildNarrative:
    def test_it_answers_at_once(self, provider: ScriptedProvider, run_jobs: RunJobs) -> None:
        chapter = ended_chapter()
        response = call("POST", address(chapter, "build-narrative"))
        assert response.status_code == 202
        assert response.json()["state"] == "NARRATING"
        run_jobs()
        document = call("GET", address(chapter)).json()
        assert document["state"] == "ENDED"
        assert "The lamp was dark" in document["narrative_drafts"][0]["chapter_text"]
        assert {"words", "target_words", "scene", "scenes"} >= set(document["jobs"][0]["progress"])

    def test_asked_to_wait_it_answers_with_the_draft(
        self, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        response = waited(ended_chapter(), "build-narrative", run_jobs)
        assert response.status_code == 200
        assert len(response.json()["narrative_drafts"]) == 1

    def test_a_failure_is_502_and_earlier_drafts_stay(
        self, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        chapter = ended_chapter()
        NarrativeDraft.objects.create(
            session=chapter,
            target_words=900,
            chapter_text="Old.",
            source_snapshot={"max_prompt_index_used": 1, "memory_block_ids_used": []},
        )
        provider.enqueue(ProviderRefused("The key is wrong."))
        problem = assert_problem(waited(chapter, "build-narrative", run_jobs), 502, "job-failed")
        assert problem["job"]["kind"] == "narrate"
        document = call("GET", address(chapter)).json()
        assert document["state"] == "ENDED"
        assert [draft["chapter_text"] for draft in document["narrative_drafts"]] == ["Old."]

    def test_a_cancelled_one_is_409_to_those_who_wait(self, provider: ScriptedProvider) -> None:
        chapter = ended_chapter()

        async def scenario() -> tuple[Any, Any]:
            request = asyncio.create_task(
                acall("POST", address(chapter, "build-narrative"), Prefer="wait=60")
            )
            while not await in_database(Job.objects.exists):
                await asyncio.sleep(0)
            cancelled = await acall("POST", address(chapter, "cancel"))
            return await request, cancelled

        built, cancelled = in_loop(scenario)
        assert_problem(built, 409, "job-cancelled")
        assert cancelled.status_code == 200
        assert cancelled.json()["state"] == "ENDED"
        assert cancelled.json()["jobs"][0]["status"] == "cancelled"

    def test_without_consent_it_is_refused(self, provider: ScriptedProvider) -> None:
        provider.host = "models.example"
        response = call("POST", address(ended_chapter(), "build-narrative"))
        assert_problem(response, 403, "consent-missing")


class TestCancelAndReopen:
    def test_with_nothing_being_written_there_is_nothing_to_cancel(self) -> None:
        assert_problem(call("POST", address(ended_chapter(), "cancel")), 409, "wrong-state")

    def test_an_ended_chapter_can_be_reopened(self) -> None:
        response = call("POST", address(ended_chapter(), "reopen"))
        assert (response.status_code, response.json()["state"]) == (200, "ACTIVE")

    @pytest.mark.parametrize(
        "action", ["lock", "end", "retry-summary", "build-narrative", "cancel", "reopen"]
    )
    def test_an_unknown_chapter_is_404(self, provider: ScriptedProvider, action: str) -> None:
        assert_problem(call("POST", f"{UNKNOWN}/{action}"), 404, "unknown-chapter")
