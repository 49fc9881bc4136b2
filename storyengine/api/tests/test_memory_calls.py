"""Tests of a chapter whose memory is far behind. The API answers 409 and says how many calls of a
model the memory needs, until the client agrees to this number."""

import json
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


def test_memory_catches_up_in_play_once_they_are_accepted(
    behind: Session, run_jobs: RunJobs
) -> None:
    response = call("POST", address(behind, "retry-summary"), {"accept_calls": True})
    assert (response.status_code, response.json()["calls_to_accept"]) == (202, 0)
    run_jobs()
    assert chunks_of(behind) == [(1, 7)]
    assert call("POST", address(behind, "end")).status_code == 202


@pytest.mark.parametrize("body", [{"accept_calls": 1}, {"accept": True}, []])
def test_what_is_no_acceptance_is_refused(behind: Session, body: Any) -> None:
    response = call("POST", address(behind, "end"), body)
    assert_problem(response, 422, "invalid-input")
    assert not Job.objects.exists()


def test_the_schema_says_so() -> None:
    schema = json.loads(call("GET", "/api/openapi.json").content)
    for action in ("end", "retry-summary"):
        post = schema["paths"][f"/api/session/{{session_id}}/{action}"]["post"]
        assert not post["requestBody"].get("required")
        [media] = post["requestBody"]["content"].values()
        assert "CallsBody" in json.dumps(media["schema"])
        assert "accept_calls" in post["description"]
    assert {"calls", "estimate"} <= set(schema["components"]["schemas"]["Problem"]["properties"])
