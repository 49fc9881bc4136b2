import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pytest_django import Settings

from agents.flows.replies.layers_to_try import LAYER_CHAR_LIMIT
from agents.flows.replies.tests.trying import running_elsewhere, trials_of
from agents.flows.tests.playing import play, replies_are_over
from agents.llm.providers.failures.call_errors import ProviderRefused
from agents.llm.providers.scripted import Script, ScriptedProvider
from sessions.models import Session
from sessions.tests.factories import make_active_chapter
from storyengine.api.tests.calling import acall, address, assert_problem, call, in_loop

pytestmark = pytest.mark.django_db

LAYER = 5
CHANGE = {"layer": LAYER, "text": "Mara, who laughs."}


@pytest.fixture
def chapter(provider: ScriptedProvider, settings: Settings) -> Session:
    settings.LLM = "scripted"
    chapter = make_active_chapter()
    provider.enqueue("I wait.")
    play(chapter, "The door opens.")
    return chapter


def run(chapter: Session, body: Any = CHANGE, **headers: str) -> Any:
    """Send a trial, wait until its reply has ended, and return the answer to the request."""

    async def scenario() -> Any:
        response = await acall("POST", address(chapter, "trial"), body, **headers)
        await replies_are_over()
        return response

    return in_loop(scenario)


def while_it_runs(
    chapter: Session,
    provider: ScriptedProvider,
    act: Callable[[dict[str, Any]], Awaitable[Any]],
    **headers: str,
) -> Any:
    """Start a trial, call `act` with the trial's document while the reply is being written, and
    return the result of `act`."""

    async def scenario() -> Any:
        gate = asyncio.Event()
        provider.enqueue(Script("I go.", gate=gate))
        response = await acall("POST", address(chapter, "trial"), CHANGE, **headers)
        assert response.status_code == 202
        result = await act(response.json())
        gate.set()
        await replies_are_over()
        return result

    return in_loop(scenario)


class TestRunning:
    def test_it_answers_at_once_and_the_result_can_be_fetched(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        async def keep(document: dict[str, Any]) -> dict[str, Any]:
            return document

        before = call("GET", address(chapter)).json()
        running = while_it_runs(chapter, provider, keep)
        assert (running["status"], running["reply"], running["call"]) == ("running", "", None)
        done = call("GET", address(chapter, f"trial/{running['trial_id']}")).json()
        assert (done["status"], done["reply_before"], done["reply"]) == ("done", "I wait.", "I go.")
        assert (done["layer_name"], done["layer_text"]) == ("AGENT_IDENTITY", CHANGE["text"])
        assert done["layer_text_before"].endswith("A ferrywoman.")
        assert done["call"]["output_tokens"] == done["call_before"]["output_tokens"] == 2
        assert done["call"]["dollars"] > 0
        assert (done["can_adopt"], done["is_adopted"]) == (True, False)
        session = call("GET", address(chapter)).json()
        assert [event["text"] for event in session["events"]] == ["The door opens.", "I wait."]
        assert session == before

    def test_its_turn_lists_it_unchosen(self, chapter: Session, provider: ScriptedProvider) -> None:
        provider.enqueue("I go.")
        trial = run(chapter).json()["trial_id"]
        attempts = call("GET", address(chapter, "turns/1")).json()["attempts"]
        assert [(one["kind"], one["is_chosen"]) for one in attempts] == [
            ("prompt", True),
            ("trial", False),
        ]
        assert attempts[1]["attempt_id"] == trial
        assert attempts[1]["events"][-1]["text"] == "I go."

    def test_a_failure_is_502_with_what_came_of_it(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(Script("I go", error=ProviderRefused("The key is wrong.")))
        problem = assert_problem(run(chapter, Prefer="wait=60"), 502, "turn-failed")
        assert problem["detail"] == "The key is wrong."
        pending = problem["pending_turn"]
        assert (pending["kind"], pending["partial_text"]) == ("trial", "I go")

    def test_asked_to_wait_too_short_a_time_it_answers_as_it_is(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        async def answer(document: dict[str, Any]) -> dict[str, Any]:
            return document

        document = while_it_runs(chapter, provider, answer, Prefer="wait=0")
        assert document["status"] == "running"

    def test_it_can_be_stopped(self, chapter: Session, provider: ScriptedProvider) -> None:
        async def stop(document: dict[str, Any]) -> list[Any]:
            path = address(chapter, f"trial/{document['trial_id']}/stop")
            return [await acall("POST", path) for _ in range(2)]

        stopped, again = while_it_runs(chapter, provider, stop)
        assert (stopped.status_code, stopped.json()["status"]) == (200, "cancelled")
        assert_problem(again, 409, "wrong-state")
        assert call("GET", address(chapter)).json()["pending_turn"] is None

    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            (CHANGE | {"text": "x" * (LAYER_CHAR_LIMIT + 1)}, "too-long"),
            (CHANGE | {"layer": 9}, "invalid-input"),
            (CHANGE | {"layer": "2"}, "invalid-input"),
            ({"layer": LAYER}, "invalid-input"),
            (CHANGE | {"txt": ""}, "invalid-input"),
        ],
    )
    def test_what_cannot_be_tried_is_422(self, chapter: Session, body: Any, kind: str) -> None:
        assert_problem(run(chapter, body), 422, kind)
        assert trials_of(chapter) == []


class TestAdopting:
    @pytest.fixture
    def path(self, chapter: Session, provider: ScriptedProvider) -> str:
        provider.enqueue("I go.")
        trial = run(chapter).json()["trial_id"]
        return address(chapter, f"trial/{trial}")

    def test_it_answers_with_the_trial_s_events_however_often_and_late(
        self, chapter: Session, path: str, provider: ScriptedProvider
    ) -> None:
        answers = [call("POST", f"{path}/adopt") for _ in range(2)]
        assert len(provider.history) == 2
        play(chapter, "On we go.")
        answers.append(call("POST", f"{path}/adopt"))
        assert [answer.status_code for answer in answers] == [201] * 3
        answer = answers[0].json()
        assert [other.json() for other in answers] == [answer] * 3
        assert (answer["kind"], answer["prompt_index"]) == ("trial", 1)
        assert [event["text"] for event in answer["events"]] == ["The door opens.", "I go."]
        document = call("GET", path).json()
        assert (document["is_adopted"], document["can_adopt"]) == (True, False)

    def test_before_it_is_done_it_is_409(self, chapter: Session) -> None:
        trial = running_elsewhere(chapter)
        response = call("POST", address(chapter, f"trial/{trial.pk}/adopt"))
        assert_problem(response, 409, "wrong-state")
