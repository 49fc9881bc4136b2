import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import Settings

from agents.flows.tests.playing import play
from agents.flows.trials import LAYER_CHAR_LIMIT
from agents.models import Job, LLMArtifact
from agents.providers.exceptions import ProviderRefused
from agents.providers.scripted import ScriptedProvider
from agents.running.database import in_database
from sessions.models import Session
from sessions.tests.factories import make_active_chapter
from storyengine.api.tests.calling import acall, address, assert_problem, call, in_loop

pytestmark = pytest.mark.django_db

Jobs = Callable[[], int]
LAYER = 4
CHANGE = {"layer": LAYER, "text": "Mara, who laughs."}


@pytest.fixture
def chapter(provider: ScriptedProvider, settings: Settings) -> Session:
    settings.LLM = "scripted"
    chapter = make_active_chapter()
    provider.enqueue("I wait.")
    play(chapter, "The door opens.")
    return chapter


def run(chapter: Session, body: Any = CHANGE, **headers: str) -> Any:
    return call("POST", address(chapter, "trial"), body, **headers)


def waited(chapter: Session, jobs: Jobs) -> Any:
    async def scenario() -> Any:
        request = asyncio.create_task(
            acall("POST", address(chapter, "trial"), CHANGE, Prefer="wait=60")
        )
        while not request.done() and not await in_database(Job.objects.exists):
            await asyncio.sleep(0)
        await in_database(jobs)
        return await request

    return in_loop(scenario)


class TestRunning:
    def test_what_can_be_changed_is_listed_word_for_word(self, chapter: Session) -> None:
        tried = call("GET", address(chapter, "trial")).json()
        assert (tried["prompt_index"], tried["reply"]) == (1, "I wait.")
        assert tried["call_id"] == str(LLMArtifact.objects.get().pk)
        assert tried["layers"][LAYER - 1]["name"] == "AGENT_IDENTITY"
        assert [one["number"] for one in tried["layers"]] == list(
            range(1, len(tried["layers"]) + 1)
        )
        assert tried["layers"][-1]["text"] == "The door opens."

    def test_it_answers_at_once_and_the_result_can_be_fetched(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: Jobs
    ) -> None:
        response = run(chapter)
        queued = response.json()
        assert response.status_code == 202
        assert (queued["status"], queued["reply"], queued["call"]) == ("queued", "", None)
        provider.enqueue("I go.")
        run_jobs()
        done = call("GET", address(chapter, f"trial/{queued['trial_id']}")).json()
        assert (done["status"], done["reply_before"], done["reply"]) == ("done", "I wait.", "I go.")
        assert (done["layer_name"], done["layer_text"]) == ("AGENT_IDENTITY", CHANGE["text"])
        assert done["layer_text_before"].endswith("A ferrywoman.")
        assert done["call"]["output_tokens"] == done["call_before"]["output_tokens"] == 2
        assert done["call"]["dollars"] > 0
        assert (done["can_adopt"], done["is_adopted"]) == (True, False)
        session = call("GET", address(chapter)).json()
        assert [event["text"] for event in session["events"]] == ["The door opens.", "I wait."]
        assert session["jobs"] == []

    def test_asked_to_wait_it_answers_when_done(self, chapter: Session, run_jobs: Jobs) -> None:
        response = waited(chapter, run_jobs)
        assert (response.status_code, response.json()["status"]) == (200, "done")
        assert response.headers["Preference-Applied"] == "wait=60"

    def test_a_failure_is_502_with_the_job(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: Jobs
    ) -> None:
        provider.enqueue(ProviderRefused("The key is wrong."))
        problem = assert_problem(waited(chapter, run_jobs), 502, "job-failed")
        assert (problem["job"]["kind"], problem["detail"]) == ("trial", "The key is wrong.")

    def test_the_same_key_is_the_same_trial(self, chapter: Session) -> None:
        ids = {run(chapter, Idempotency_Key="k").json()["trial_id"] for _ in range(2)}
        assert len(ids) == 1
        problem = run(chapter, CHANGE | {"text": "No."}, Idempotency_Key="k")
        assert_problem(problem, 409, "key-reused")

    def test_it_can_be_stopped(self, chapter: Session) -> None:
        trial = run(chapter).json()["trial_id"]
        stopped = call("POST", address(chapter, f"trial/{trial}/stop"))
        assert (stopped.status_code, stopped.json()["status"]) == (200, "cancelled")
        again = call("POST", address(chapter, f"trial/{trial}/stop"))
        assert_problem(again, 409, "wrong-state")

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
        assert not Job.objects.exists()

    def test_what_does_not_fit_is_422_before_anything_is_spent(
        self, chapter: Session, settings: Settings, provider: ScriptedProvider
    ) -> None:
        settings.MODEL = "a-model-nobody-knows"
        settings.MODEL_BY_AGENT = dict.fromkeys(range(10), "")
        settings.CONTEXT_WINDOW, settings.MAX_OUTPUT = 4_096, 1_000
        assert_problem(run(chapter, CHANGE | {"text": "x " * 9_000}), 422, "prompt-too-long")
        assert len(provider.history) == 1

    def test_a_call_that_is_no_longer_the_replys_is_409(self, chapter: Session) -> None:
        body = CHANGE | {"call_id": "7b9c6b7e-0000-4000-8000-000000000000"}
        assert_problem(run(chapter, body), 409, "wrong-state")

    def test_without_consent_it_is_403(self, chapter: Session, provider: ScriptedProvider) -> None:
        provider.host = "models.example"
        assert_problem(run(chapter), 403, "consent-missing")

    def test_with_nothing_played_it_is_409(self) -> None:
        empty = make_active_chapter()
        assert_problem(run(empty), 409, "wrong-state")
        assert_problem(call("GET", address(empty, "trial")), 409, "wrong-state")

    def test_what_is_not_there_is_404(self, chapter: Session) -> None:
        unknown = "7b9c6b7e-0000-4000-8000-000000000000"
        path = address(chapter, f"trial/{unknown}")
        assert_problem(call("GET", path), 404, "unknown-chapter")
        assert_problem(call("POST", f"{path}/adopt"), 404, "unknown-chapter")
        assert_problem(call("POST", f"{path}/stop"), 404, "unknown-chapter")
        assert_problem(call("GET", f"/api/session/{unknown}/trial"), 404, "unknown-chapter")


class TestAdopting:
    @pytest.fixture
    def path(self, chapter: Session, provider: ScriptedProvider, run_jobs: Jobs) -> str:
        provider.enqueue("I go.")
        trial = run(chapter).json()["trial_id"]
        run_jobs()
        return address(chapter, f"trial/{trial}")

    def test_it_answers_what_a_reroll_answers_however_often(
        self, chapter: Session, path: str
    ) -> None:
        answers = [call("POST", f"{path}/adopt") for _ in range(2)]
        assert [answer.status_code for answer in answers] == [201, 201]
        assert answers[0].json() == answers[1].json()
        answer = answers[0].json()
        assert (answer["kind"], answer["prompt_index"]) == ("reroll", 1)
        assert [event["text"] for event in answer["events"]] == [
            *("The door opens.", "I wait.", "I go.")
        ]
        assert call("GET", path).json()["is_adopted"]

    def test_once_play_has_gone_on_it_is_409(self, chapter: Session, path: str) -> None:
        play(chapter, "On we go.")
        document = call("GET", path).json()
        assert not document["can_adopt"]
        assert "gone on" in document["why_not"]
        assert_problem(call("POST", f"{path}/adopt"), 409, "wrong-state")

    def test_before_it_is_done_it_is_409(self, chapter: Session) -> None:
        trial = run(chapter).json()["trial_id"]
        response = call("POST", address(chapter, f"trial/{trial}/adopt"))
        assert_problem(response, 409, "wrong-state")
