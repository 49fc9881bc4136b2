import asyncio
from typing import Any

import pytest
from pytest_django import Settings

from agents.flows.tests.playing import play
from agents.llm.providers.failures.call_errors import ProviderTimeout, StreamBroken
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import ProviderConsent
from agents.running.database import in_database
from agents.running.live import LIVE_REPLIES
from sessions.models import Attempt, Event, Session
from sessions.tests.factories import make_active_chapter
from storyengine.api.tests.calling import (
    acall,
    address,
    assert_problem,
    call,
    in_loop,
    reply_is_running,
)

pytestmark = pytest.mark.django_db

PROMPT = {"agent_slot": 1, "user_text": "The door opens."}
ANSWER_FIELDS = {
    *("session_id", "turn_id", "attempt_id", "kind", "prompt_index", "events"),
    *("ended_before", "was_cut"),
}


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def send(chapter: Session, body: Any = PROMPT, key: str = "") -> Any:
    headers = {"Idempotency_Key": key} if key else {}
    return call("POST", address(chapter, "prompt"), body, **headers)


class TestPrompt:
    def test_it_answers_with_the_committed_events(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("I step through.")
        response = send(chapter)
        answer = response.json()
        assert response.status_code == 201
        assert set(answer) == ANSWER_FIELDS
        assert answer["turn_id"] == answer["attempt_id"] == answer["events"][0]["attempt_id"]
        assert (answer["prompt_index"], answer["kind"]) == (1, "prompt")
        assert [
            (event["role"], event["agent_slot"], event["text"]) for event in answer["events"]
        ] == [
            ("user", None, "The door opens."),
            ("agent", 1, "I step through."),
        ]
        document = call("GET", address(chapter)).json()
        assert document["events"] == answer["events"]
        assert (document["prompt_index"], document["next_agent_slot"]) == (1, 2)
        assert document["pending_turn"] is None

    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            ({**PROMPT, "user_text": "x" * 5_001}, "too-long"),
            ({**PROMPT, "user_text": " \n "}, "invalid-input"),
            ({**PROMPT, "user_text": "a\x00b"}, "invalid-input"),
            ({**PROMPT, "user_text": "\udfff"}, "invalid-input"),
            ({**PROMPT, "user_text": None}, "invalid-input"),
            ({**PROMPT, "agent_slot": 4}, "invalid-input"),
            ({**PROMPT, "agent_slot": 0}, "invalid-input"),
            ({**PROMPT, "agent_slot": 10**400}, "invalid-input"),
            ({**PROMPT, "agent_slot": "1"}, "invalid-input"),
            ({**PROMPT, "agent_slot": True}, "invalid-input"),
            ({"user_text": "x"}, "invalid-input"),
            ({"agent_slot": 1}, "invalid-input"),
            (None, "invalid-input"),
        ],
    )
    def test_what_is_wrong_is_refused_and_not_stored(
        self, chapter: Session, provider: ScriptedProvider, body: Any, kind: str
    ) -> None:
        assert_problem(send(chapter, body), 422, kind)
        assert not Attempt.objects.exists()
        assert provider.history == []

    def test_only_one_turn_is_in_flight(self, chapter: Session, provider: ScriptedProvider) -> None:
        gate = asyncio.Event()
        provider.enqueue(Script("One two three.", gate=gate, gate_at=1))

        async def scenario() -> tuple[Any, Any]:
            first = asyncio.create_task(acall("POST", address(chapter, "prompt"), PROMPT))
            await reply_is_running()
            second = await acall("POST", address(chapter, "prompt"), PROMPT)
            gate.set()
            return await first, second

        first, second = in_loop(scenario)
        assert first.status_code == 201
        assert_problem(second, 409, "turn-in-flight")


class TestIdempotency:
    def test_after_success_it_is_the_same_answer(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        first = send(chapter, key="k1")
        play(chapter, "More.", slot=2)
        again = send(chapter, key="k1")
        assert (again.status_code, again.json()) == (201, first.json())
        assert len(provider.history) == 2

    def test_after_a_failure_it_runs_again(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(ProviderTimeout("The model took too long."), "I step through.")
        assert send(chapter, key="k1").status_code == 502
        assert send(chapter, key="k1").status_code == 201
        assert Attempt.objects.get().status == Attempt.Status.COMMITTED


class TestFailure:
    def test_a_provider_that_fails_is_502_with_the_words_kept(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(Script("I step", error=StreamBroken("The reply broke off.")))
        problem = assert_problem(send(chapter, key="k1"), 502, "turn-failed")
        assert problem["detail"] == "The reply broke off."
        pending = problem["pending_turn"]
        # A problem has no values that are null.
        nothing = dict.fromkeys(("witnesses", "given"))
        assert pending | nothing == call("GET", address(chapter)).json()["pending_turn"]
        assert (pending["status"], pending["user_text"], pending["partial_text"]) == (
            "failed",
            "The door opens.",
            "I step",
        )
        assert (pending["submission_key"], pending["error"]) == ("k1", "The reply broke off.")
        assert not Event.objects.exists()

    def test_a_missing_consent_is_403_with_the_host(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.host = "models.example"
        problem = assert_problem(send(chapter), 403, "consent-missing")
        assert problem["host"] == "models.example"
        assert "/api/consent" in problem["hint"]
        assert problem["pending_turn"]["user_text"] == "The door opens."
        assert provider.history == []
        ProviderConsent.objects.create(host="models.example")
        assert send(chapter).status_code == 201

    def test_too_many_calls_are_429(
        self, chapter: Session, provider: ScriptedProvider, settings: Settings
    ) -> None:
        settings.CALLS_PER_MINUTE = 1
        assert send(chapter).status_code == 201
        response = send(chapter)
        assert_problem(response, 429, "rate-limited")
        assert int(response.headers["Retry-After"]) > 0

    def test_a_reset_under_a_running_reply_is_404(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        gate = asyncio.Event()
        provider.enqueue(Script("One two three.", gate=gate, gate_at=1))

        async def scenario() -> Any:
            reply = asyncio.create_task(acall("POST", address(chapter, "prompt"), PROMPT))
            await reply_is_running()
            reset = await acall("POST", address(chapter, "reset"))
            gate.set()
            assert reset.status_code == 201
            return await reply

        assert_problem(in_loop(scenario), 404, "unknown-chapter")


class TestStopAndKeep:
    def stop_one(self, chapter: Session, provider: ScriptedProvider) -> tuple[Any, Any]:
        """Stop a reply after its first word. Return the answer to the prompt and the answer to the
        stop."""
        gate = asyncio.Event()
        provider.enqueue(Script("One two three.", gate=gate, gate_at=1))

        async def scenario() -> tuple[Any, Any]:
            reply = asyncio.create_task(acall("POST", address(chapter, "prompt"), PROMPT))
            await reply_is_running()
            stopped = await acall("POST", address(chapter, "stop"))
            return await reply, stopped

        return in_loop(scenario)

    def test_stop_keeps_the_text_so_far(self, chapter: Session, provider: ScriptedProvider) -> None:
        reply, stopped = self.stop_one(chapter, provider)
        assert stopped.status_code == 200
        pending = stopped.json()["pending_turn"]
        assert (pending["status"], pending["partial_text"]) == ("stopped", "One ")
        problem = assert_problem(reply, 409, "turn-stopped")
        assert problem["pending_turn"].items() <= pending.items()
        assert stopped.json()["prompt_index"] == 0

    def test_keep_makes_it_the_reply(self, chapter: Session, provider: ScriptedProvider) -> None:
        self.stop_one(chapter, provider)
        response = call("POST", address(chapter, "keep"))
        answer = response.json()
        assert response.status_code == 201
        assert set(answer) == ANSWER_FIELDS
        assert answer["prompt_index"] == 1
        assert [event["text"] for event in answer["events"]] == ["The door opens.", "One "]
        assert call("GET", address(chapter)).json()["pending_turn"] is None

    def test_with_nothing_running_there_is_nothing_to_stop(self, chapter: Session) -> None:
        assert_problem(call("POST", address(chapter, "stop")), 409, "wrong-state")

    def test_with_nothing_broken_there_is_nothing_to_keep(self, chapter: Session) -> None:
        assert_problem(call("POST", address(chapter, "keep")), 409, "wrong-state")


def test_a_reply_goes_on_when_the_client_leaves(
    chapter: Session, provider: ScriptedProvider
) -> None:
    gate = asyncio.Event()
    provider.enqueue(Script("One two three.", gate=gate, gate_at=1))

    async def scenario() -> Attempt:
        request = asyncio.create_task(acall("POST", address(chapter, "prompt"), PROMPT))
        await reply_is_running()
        (live,) = LIVE_REPLIES.values()
        request.cancel()
        await asyncio.wait({request})
        assert request.cancelled()
        gate.set()
        assert live.task is not None
        await asyncio.wait({live.task})
        return await in_database(Attempt.objects.get)

    assert in_loop(scenario).status == Attempt.Status.COMMITTED
