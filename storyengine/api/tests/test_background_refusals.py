"""Tests that a job in the background is refused for the same reasons as a prompt, and in the same
words."""

from collections.abc import Callable

import pytest
from django.utils import timezone
from pytest_django import Settings

from agents.flows.telling.tests.narrations import make_ended_chapter
from agents.llm.providers.failures.call_errors import ProviderTimeout
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import AdmittedCall, Job, ProviderConsent
from agents.tests.recorded_calls import add_call
from sessions.models import Session
from sessions.tests.factories import add_prompts, make_active_chapter, make_chapter
from storyengine.api.tests.calling import RunJobs, address, assert_problem, call, waited

pytestmark = pytest.mark.django_db


def add_huge_call(chapter: Session) -> None:
    """Store a call whose tokens exceed every cap in these tests."""
    add_call(chapter, input=9_000)


STARTS: dict[str, tuple[Callable[[], Session], str]] = {
    "lock": (make_chapter, "DRAFT_TAB1"),
    "build-narrative": (make_ended_chapter, "ENDED"),
}


class TestRefusal:
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
        add_huge_call(chapter)
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
        AdmittedCall.objects.create(session_id=chapter.pk)
        response = call("POST", address(chapter, action))
        assert_problem(response, 429, "rate-limited")
        assert int(response.headers["Retry-After"]) > 0
        assert not Job.objects.exists()
        assert call("GET", address(chapter)).json()["state"] == state

    @pytest.mark.parametrize("action", STARTS)
    def test_a_budget_that_is_spent_meanwhile_is_429(
        self, capped: Settings, run_jobs: RunJobs, action: str
    ) -> None:
        make, state = STARTS[action]
        chapter = make()

        def spend_and_run() -> int:
            add_huge_call(chapter)
            return run_jobs()

        problem = assert_problem(waited(chapter, action, spend_and_run), 429, "budget-spent")
        assert problem["job"]["refusal"] == "budget-spent"
        assert problem["detail"] == problem["job"]["error"]
        assert call("GET", address(chapter)).json()["state"] == state

    @pytest.mark.parametrize("action", STARTS)
    def test_a_consent_that_is_withdrawn_meanwhile_is_403_with_the_host(
        self, provider: ScriptedProvider, run_jobs: RunJobs, action: str
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

    def test_a_later_try_speaks_for_itself(
        self, settings: Settings, provider: ScriptedProvider, run_jobs: RunJobs
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
