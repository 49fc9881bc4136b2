import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from agents.database import in_database
from agents.jobs import claim, due_jobs, fail
from agents.models import Job, LLMArtifact, ProviderConsent
from agents.providers.exceptions import ProviderRefused, ProviderTimeout
from agents.providers.scripted import ScriptedProvider
from agents.tests.narrations import make_ended_chapter
from memory.models import NarrativeDraft
from sessions.models import Session
from sessions.states import State
from sessions.tests.factories import add_prompts, make_active_chapter, make_chapter
from storyengine.api import waiting
from storyengine.api.reading import is_job_over
from storyengine.api.tests.calling import acall, address, assert_problem, call, in_loop
from storyengine.api.waiting import wait_seconds

pytestmark = pytest.mark.django_db

UNKNOWN = "/api/session/00000000-0000-0000-0000-000000000000"
Jobs = Callable[[], int]


def waited(chapter: Session, action: str, jobs: Jobs, wait: int = 60) -> Any:
    """The answer to a call that waits while the jobs that it queued are done."""

    def is_one_due() -> bool:
        return due_jobs().exists()

    async def scenario() -> Any:
        request = asyncio.create_task(
            acall("POST", address(chapter, action), Prefer=f"wait={wait}")
        )
        while not request.done() and not await in_database(is_one_due):
            await asyncio.sleep(0)
        await in_database(jobs)
        return await request

    return in_loop(scenario)


def ended_chapter() -> Session:
    chapter = make_active_chapter(state=State.ENDED)
    add_prompts(chapter, 2)
    return chapter


class TestLock:
    def test_it_answers_at_once_with_the_chapter(
        self, provider: ScriptedProvider, run_jobs: Jobs
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
        self, provider: ScriptedProvider, run_jobs: Jobs
    ) -> None:
        response = waited(make_chapter(), "lock", run_jobs)
        assert response.status_code == 200
        assert response.headers["Preference-Applied"] == "wait=60"
        assert response.json()["state"] == "ACTIVE"

    def test_a_failure_is_502_with_the_job(
        self, provider: ScriptedProvider, run_jobs: Jobs
    ) -> None:
        provider.enqueue(ProviderRefused("The key is wrong."))
        chapter = make_chapter()
        problem = assert_problem(waited(chapter, "lock", run_jobs), 502, "job-failed")
        assert "The key is wrong." in problem["detail"]
        assert (problem["job"]["kind"], problem["job"]["status"]) == ("lock", "failed")
        assert call("GET", address(chapter)).json()["state"] == "DRAFT_TAB1"

    def test_when_the_seconds_pass_first_it_is_202(self, provider: ScriptedProvider) -> None:
        response = call("POST", address(make_chapter(), "lock"), Prefer="wait=0")
        assert (response.status_code, response.json()["state"]) == (202, "LOCKING")

    def test_an_empty_world_and_chapter_is_refused(self) -> None:
        created = call("POST", "/api/session").headers["Location"]
        assert_problem(call("POST", f"{created}/lock"), 422, "invalid-input")

    def test_a_second_lock_is_refused(self, provider: ScriptedProvider) -> None:
        chapter = make_chapter()
        call("POST", address(chapter, "lock"))
        assert_problem(call("POST", address(chapter, "lock")), 409, "wrong-state")

    def test_without_consent_it_is_refused_with_the_host(self, provider: ScriptedProvider) -> None:
        provider.host = "models.example"
        chapter = make_chapter()
        problem = assert_problem(call("POST", address(chapter, "lock")), 403, "consent-missing")
        assert problem["host"] == "models.example"
        assert call("GET", address(chapter)).json()["state"] == "DRAFT_TAB1"
        ProviderConsent.objects.create(host="models.example")
        assert call("POST", address(chapter, "lock")).status_code == 202

    def test_a_reset_meanwhile_is_404(self, provider: ScriptedProvider) -> None:
        chapter = make_chapter()

        async def scenario() -> Any:
            request = asyncio.create_task(acall("POST", address(chapter, "lock"), Prefer="wait=60"))
            while not await in_database(Job.objects.exists):
                await asyncio.sleep(0)
            await acall("POST", address(chapter, "reset"))
            return await request

        assert_problem(in_loop(scenario), 404, "unknown-chapter")


class TestEnd:
    def test_it_waits_for_the_last_memory(self, provider: ScriptedProvider, run_jobs: Jobs) -> None:
        chapter = make_active_chapter()
        add_prompts(chapter, 2)
        response = call("POST", address(chapter, "end"))
        document = response.json()
        assert response.status_code == 202
        assert (document["state"], document["is_ending"]) == ("SUMMARIZING", True)
        run_jobs()
        document = call("GET", address(chapter)).json()
        assert (document["state"], document["last_summarized_prompt_index"]) == ("ENDED", 2)

    def test_asked_to_wait_it_answers_when_ended(
        self, provider: ScriptedProvider, run_jobs: Jobs
    ) -> None:
        chapter = make_active_chapter()
        add_prompts(chapter, 9)
        response = waited(chapter, "end", run_jobs)
        assert response.status_code == 200
        assert response.json()["state"] == "ENDED"
        assert response.json()["last_summarized_prompt_index"] == 9

    def test_with_nothing_left_to_remember_it_ends_at_once(
        self, provider: ScriptedProvider, run_jobs: Jobs
    ) -> None:
        chapter = make_active_chapter(last_summarized_prompt_index=2)
        add_prompts(chapter, 2)
        response = call("POST", address(chapter, "end"), Prefer="wait=60")
        assert (response.status_code, response.json()["state"]) == (200, "ENDED")

    def test_a_last_memory_that_fails_is_502_and_the_chapter_stays_in_play(
        self, provider: ScriptedProvider, run_jobs: Jobs
    ) -> None:
        provider.enqueue(ProviderTimeout("The model took too long."))
        chapter = make_active_chapter()
        add_prompts(chapter, 2)
        problem = assert_problem(waited(chapter, "end", run_jobs), 502, "job-failed")
        assert problem["job"]["kind"] == "summarize"
        assert call("GET", address(chapter)).json()["state"] == "ACTIVE"

    def test_with_no_prompts_it_is_refused(self) -> None:
        response = call("POST", address(make_active_chapter(), "end"))
        assert_problem(response, 409, "wrong-state")


class TestRetrySummary:
    def test_it_writes_the_memory_that_failed(
        self, provider: ScriptedProvider, run_jobs: Jobs
    ) -> None:
        chapter = make_active_chapter()
        add_prompts(chapter, 7)
        response = waited(chapter, "retry-summary", run_jobs)
        assert response.status_code == 200
        assert response.json()["last_summarized_prompt_index"] == 7

    def test_a_failure_is_502_although_it_will_be_tried_again(
        self, provider: ScriptedProvider, run_jobs: Jobs
    ) -> None:
        provider.enqueue(ProviderTimeout("The model took too long."))
        chapter = make_active_chapter()
        add_prompts(chapter, 7)
        problem = assert_problem(waited(chapter, "retry-summary", run_jobs), 502, "job-failed")
        assert problem["job"]["status"] == "queued"
        assert problem["detail"] == "The model took too long."

    def test_without_waiting_it_is_202(self, provider: ScriptedProvider) -> None:
        chapter = make_active_chapter()
        add_prompts(chapter, 7)
        assert call("POST", address(chapter, "retry-summary")).status_code == 202

    def test_a_chapter_whose_end_failed_is_ended(
        self, provider: ScriptedProvider, run_jobs: Jobs
    ) -> None:
        chapter = make_active_chapter()
        add_prompts(chapter, 2)
        provider.enqueue(ProviderTimeout("The model took too long."))
        assert waited(chapter, "end", run_jobs).status_code == 502
        response = waited(chapter, "retry-summary", run_jobs)
        assert response.status_code == 200
        assert response.json()["state"] == "ENDED"
        assert response.json()["last_summarized_prompt_index"] == 2

    def test_with_no_memory_due_it_is_refused(self) -> None:
        response = call("POST", address(make_active_chapter(), "retry-summary"))
        assert_problem(response, 409, "wrong-state")


class TestBuildNarrative:
    def test_it_answers_at_once(self, provider: ScriptedProvider, run_jobs: Jobs) -> None:
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
        self, provider: ScriptedProvider, run_jobs: Jobs
    ) -> None:
        response = waited(ended_chapter(), "build-narrative", run_jobs)
        assert response.status_code == 200
        assert len(response.json()["narrative_drafts"]) == 1

    def test_a_failure_is_502_and_earlier_drafts_stay(
        self, provider: ScriptedProvider, run_jobs: Jobs
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

    def test_a_chapter_in_play_is_refused(self, provider: ScriptedProvider) -> None:
        response = call("POST", address(make_active_chapter(), "build-narrative"))
        assert_problem(response, 409, "wrong-state")

    def test_without_consent_it_is_refused(self, provider: ScriptedProvider) -> None:
        provider.host = "models.example"
        response = call("POST", address(ended_chapter(), "build-narrative"))
        assert_problem(response, 403, "consent-missing")


def add_call(chapter: Session) -> None:
    """A call that has used more tokens than any cap of these tests."""
    LLMArtifact.objects.create(
        session=chapter,
        agent_id=0,
        provider="scripted",
        model="nobody-knows",
        input_hash="-",
        token_counts={"input": 9_000, "output": 0, "cached": 0},
    )


STARTS: dict[str, tuple[Callable[[], Session], str]] = {
    "lock": (make_chapter, "DRAFT_TAB1"),
    "build-narrative": (make_ended_chapter, "ENDED"),
}


class TestRefusal:
    """What forbids a prompt to call a model forbids it here too, in the same words."""

    @pytest.fixture
    def capped(self, settings: Settings, provider: ScriptedProvider) -> Settings:
        settings.LLM, settings.MODEL = "openai", "nobody-knows"
        settings.CHAPTER_TOKENS = 1_000
        return settings

    @pytest.mark.parametrize("action", STARTS)
    def test_a_spent_budget_is_429_before_anything_begins(
        self, capped: Settings, action: str
    ) -> None:
        make, state = STARTS[action]
        chapter = make()
        add_call(chapter)
        response = call("POST", address(chapter, action))
        problem = assert_problem(response, 429, "budget-spent")
        assert "Retry-After" not in response.headers
        assert "STORYENGINE_CHAPTER_TOKENS" in problem["detail"]
        assert not Job.objects.exists()
        assert call("GET", address(chapter)).json()["state"] == state
        capped.CHAPTER_TOKENS = 10_000
        assert call("POST", address(chapter, action)).status_code == 202

    @pytest.mark.parametrize("action", STARTS)
    def test_too_many_calls_are_429_before_anything_begins(
        self, settings: Settings, provider: ScriptedProvider, action: str
    ) -> None:
        make, state = STARTS[action]
        chapter = make()
        settings.CALLS_PER_MINUTE = 1
        add_call(chapter)
        response = call("POST", address(chapter, action))
        assert_problem(response, 429, "rate-limited")
        assert int(response.headers["Retry-After"]) > 0
        assert not Job.objects.exists()
        assert call("GET", address(chapter)).json()["state"] == state

    @pytest.mark.parametrize("action", STARTS)
    def test_a_budget_that_is_spent_meanwhile_is_429(
        self, capped: Settings, run_jobs: Jobs, action: str
    ) -> None:
        make, state = STARTS[action]
        chapter = make()

        def spend_and_run() -> int:
            add_call(chapter)
            return run_jobs()

        problem = assert_problem(waited(chapter, action, spend_and_run), 429, "budget-spent")
        assert problem["job"]["refusal"] == "budget-spent"
        assert problem["detail"] == problem["job"]["error"]
        assert call("GET", address(chapter)).json()["state"] == state

    @pytest.mark.parametrize("action", STARTS)
    def test_a_consent_that_is_withdrawn_meanwhile_is_403_with_the_host(
        self, provider: ScriptedProvider, run_jobs: Jobs, action: str
    ) -> None:
        make, _state = STARTS[action]
        chapter = make()
        provider.host = "models.example"
        consent = ProviderConsent.objects.create(host="models.example")

        def withdraw_and_run() -> int:
            consent.delete()
            return run_jobs()

        problem = assert_problem(waited(chapter, action, withdraw_and_run), 403, "consent-missing")
        assert problem["host"] == "models.example"
        assert "/api/consent" in problem["hint"]
        assert problem["job"]["status"] == "failed"

    @pytest.mark.parametrize("action", ["end", "retry-summary"])
    def test_too_many_calls_are_429_for_memory_too(
        self, settings: Settings, provider: ScriptedProvider, run_jobs: Jobs, action: str
    ) -> None:
        settings.CALLS_PER_MINUTE = 0
        chapter = make_active_chapter()
        add_prompts(chapter, 7)
        response = waited(chapter, action, run_jobs)
        problem = assert_problem(response, 429, "rate-limited")
        assert problem["job"]["kind"] == "summarize"
        assert int(response.headers["Retry-After"]) > 0

    def test_a_later_try_speaks_for_itself(
        self, settings: Settings, provider: ScriptedProvider, run_jobs: Jobs
    ) -> None:
        chapter = make_active_chapter()
        add_prompts(chapter, 7)

        def told() -> tuple[str, str, str]:
            [job] = call("GET", address(chapter)).json()["jobs"]
            return job["status"], job["error"], job["refusal"]

        def try_later() -> None:
            Job.objects.update(run_after=timezone.now())
            run_jobs()

        settings.CALLS_PER_MINUTE = 0
        assert_problem(waited(chapter, "retry-summary", run_jobs), 429, "rate-limited")
        settings.CALLS_PER_MINUTE = 60
        call("POST", address(chapter, "retry-summary"))
        assert told() == ("queued", "", "")
        provider.enqueue(ProviderTimeout("The model took too long."))
        run_jobs()
        assert told() == ("queued", "The model took too long.", "")
        settings.CALLS_PER_MINUTE = 0
        try_later()
        assert told()[2] == "rate-limited"
        settings.CALLS_PER_MINUTE = 60
        try_later()
        assert told() == ("done", "", "")


class TestCancelAndReopen:
    def test_with_nothing_being_written_there_is_nothing_to_cancel(self) -> None:
        assert_problem(call("POST", address(ended_chapter(), "cancel")), 409, "wrong-state")

    def test_an_ended_chapter_can_be_reopened(self) -> None:
        response = call("POST", address(ended_chapter(), "reopen"))
        assert (response.status_code, response.json()["state"]) == (200, "ACTIVE")

    def test_only_an_ended_one_can(self) -> None:
        response = call("POST", address(make_active_chapter(), "reopen"))
        assert_problem(response, 409, "wrong-state")

    @pytest.mark.parametrize(
        "action", ["lock", "end", "retry-summary", "build-narrative", "cancel", "reopen"]
    )
    def test_an_unknown_chapter_is_404(self, provider: ScriptedProvider, action: str) -> None:
        assert_problem(call("POST", f"{UNKNOWN}/{action}"), 404, "unknown-chapter")


class TestWaiting:
    @pytest.mark.parametrize(
        ("prefer", "seconds"),
        [
            ("wait=10", 10),
            ("respond-async, wait=10", 10),
            ("WAIT = 10 ; x=y, handling=lenient", 10),
            ('wait="10"', 10),
            ("wait=5, wait=10", 5),
            ("wait=0", 0),
            ("wait=601", 600),
            ("wait=00007", 7),
            (f"wait={10**50}", 600),
            ("", None),
            ("respond-async", None),
            ("wait", None),
            ("wait=", None),
            ("wait=ten", None),
            ("wait=-1", None),
            ("wait=1.5", None),
            ("await=5", None),
            ("x=wait=5", None),
        ],
    )
    def test_the_header_is_read_as_rfc_7240_says(self, prefer: str, seconds: int | None) -> None:
        assert wait_seconds(prefer) == seconds

    def test_it_asks_at_most_ten_times_a_second(
        self, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked_at, clock = [], [0.0]

        async def sleep(seconds: float) -> None:
            clock[0] += seconds

        monkeypatch.setattr(waiting, "sleep", sleep)
        monkeypatch.setattr(waiting, "monotonic", lambda: clock[0])
        job = Job.objects.create(session=make_chapter(), kind="lock", key="lock")

        def is_over(_: Any) -> bool:
            asked_at.append(clock[0])
            return False

        async def scenario() -> bool:
            return await waiting.wait_until(is_over, job.pk, job.session_id, 30)

        assert in_loop(scenario) is False
        assert clock[0] == pytest.approx(30)
        pauses = [later - earlier for earlier, later in pairwise(asked_at)]
        assert min(pauses[:-1]) >= 0.1 - 1e-6
        assert max(pauses) <= 0.5 + 1e-6

    def test_a_worker_that_died_is_noticed_by_who_waits(
        self, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(waiting, "_RECOVERY_SECONDS", 0.0)
        job = Job.objects.create(session=make_chapter(state=State.LOCKING), kind="lock", key="lock")
        recovered = []

        def give_up(session_id: Any) -> None:
            recovered.append(session_id)
            claimed = claim(job.pk)
            assert claimed is not None
            fail(claimed, "The program stopped.")

        monkeypatch.setattr(waiting, "recover", give_up)

        async def scenario() -> bool:
            return await waiting.wait_until(is_job_over, job.pk, job.session_id, 5)

        assert in_loop(scenario) is True
        assert recovered == [job.session_id]
