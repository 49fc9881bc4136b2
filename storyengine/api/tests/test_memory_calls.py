"""Tests of a chapter whose memory is far behind. The API answers 409 and says how many calls of a
model the memory needs, until the client agrees to this number."""

from typing import Any

import pytest

from agents.calling.tests.bookkeeping import chunks_of
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from sessions.models import Session
from sessions.tests.factories import add_prompts, make_active_chapter
from storyengine.api.tests.calling import RunJobs, address, assert_problem, call

pytestmark = pytest.mark.django_db


@pytest.fixture
def behind(provider: ScriptedProvider) -> Session:
    """Return a chapter in play. Memory does not cover its last three stretches and one more
    prompt."""
    chapter = make_active_chapter()
    add_prompts(chapter, 22)
    return chapter


def test_a_prompt_is_answered_and_the_chapter_says_what_waits(
    behind: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    body = {"agent_slot": 1, "user_text": "What now?"}
    assert call("POST", address(behind, "prompt"), body).status_code == 201
    run_jobs()
    assert len(provider.history) == 1
    document = call("GET", address(behind)).json()
    assert (document["calls_to_accept"], document["state"]) == (3, "ACTIVE")


@pytest.mark.parametrize(
    ("action", "calls"), [("end", 4), ("retry-summary", 3), ("build-narrative", 4)]
)
@pytest.mark.parametrize("body", [None, {}, {"accept_calls": False}])
def test_what_would_start_the_calls_is_409_with_their_number(
    behind: Session, action: str, calls: int, body: Any
) -> None:
    response = call("POST", address(behind, action), body)
    problem = assert_problem(response, 409, "calls-not-accepted")
    assert problem["calls"] == problem["estimate"]["calls"] == calls
    assert problem["estimate"]["input_tokens"] > 1_000 * calls
    assert "accept_calls" in problem["hint"]
    assert not Job.objects.exists()
    assert call("GET", address(behind)).json()["is_ending"] is False


def test_the_end_is_begun_once_they_are_accepted(behind: Session, run_jobs: RunJobs) -> None:
    response = call("POST", address(behind, "end"), {"accept_calls": True})
    assert (response.status_code, response.json()["is_ending"]) == (202, True)
    run_jobs()
    assert call("GET", address(behind)).json()["state"] == "ENDED"
    assert len(chunks_of(behind)) == 4
