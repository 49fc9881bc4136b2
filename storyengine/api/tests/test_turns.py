"""Tests of turns and their attempts: another attempt can be made or chosen, and a reply can be
edited."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from agents.llm.providers.failures.call_errors import ProviderTimeout
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import LLMArtifact
from sessions.models import THOUGHT, Attempt, Session
from sessions.play.attempts import open_prompt
from sessions.play.breaking import fail_attempt
from sessions.play.committing import commit_attempt
from sessions.play.events import NewEvent
from sessions.play.played_world import NewChange, store_changes
from sessions.tests.factories import (
    act,
    add_attempt,
    add_prompts,
    add_reply,
    make_active_chapter,
    make_chapter,
)
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
WRONG_WITNESSES = ([4], [0], [1, 1], [2, 1, 2], ["1"], [True], "1", {"1": 1})


@pytest.fixture
def chapter(provider: ScriptedProvider) -> Session:
    """Return a chapter with two turns.

    The latest turn has two attempts, the second of which is chosen.
    """
    chapter = make_active_chapter()
    add_prompts(chapter, 2)
    add_reply(chapter, 2, "another reply")
    return chapter


def turn(chapter: Session, number: int = 2) -> Any:
    response = call("GET", address(chapter, f"turns/{number}"))
    assert response.status_code == 200
    return response.json()


def attempts(chapter: Session, number: int = 2) -> list[Any]:
    listed: list[Any] = turn(chapter, number)["attempts"]
    return listed


def told(chapter: Session) -> list[str]:
    return [event["text"] for event in call("GET", address(chapter)).json()["events"]]


def reroll(chapter: Session, body: Any = None, **headers: str) -> Any:
    return call("POST", address(chapter, "reroll"), body, **headers)


def choose(chapter: Session, attempt_id: object, number: int = 2) -> Any:
    path = address(chapter, f"turns/{number}/choose")
    return call("POST", path, {"attempt_id": str(attempt_id)})


def edit(chapter: Session, text: object = "By hand.", number: int = 2, **headers: str) -> Any:
    return call("POST", address(chapter, f"turns/{number}/edit"), {"text": text}, **headers)


def choose_the_first(chapter: Session) -> Any:
    return choose(chapter, attempts(chapter)[0]["attempt_id"])


class TestReading:
    def test_a_turn_has_all_attempts_at_it_oldest_first(self, chapter: Session) -> None:
        document = turn(chapter)
        assert set(document) == {"number", "attempts"}
        assert document["number"] == 2
        first, second = document["attempts"]
        assert set(first) == {
            "attempt_id",
            "came_with_starter",
            "ended_before",
            "was_cut",
            "kind",
            "is_chosen",
            "status",
            "agent_slot",
            "words",
            "given",
            "events",
            "changes",
            "witnesses",
        }
        assert [(one["kind"], one["is_chosen"]) for one in (first, second)] == [
            ("prompt", False),
            ("reroll", True),
        ]
        said = {"status": "committed", "agent_slot": 2, "words": "beat 2", "witnesses": None}
        assert said.items() <= first.items()
        assert [event["text"] for event in first["events"]] == ["beat 2", "reply 2"]
        assert {event["attempt_id"] for event in first["events"]} == {first["attempt_id"]}
        assert second["events"] == call("GET", address(chapter)).json()["events"][2:]

    def test_queries_do_not_grow_with_the_attempts(
        self, chapter: Session, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        with django_assert_num_queries(8):
            turn(chapter)
        for number in range(20):
            add_reply(chapter, 2, f"reply {number}")
        with django_assert_num_queries(8):
            assert len(attempts(chapter)) == 22


@pytest.mark.parametrize("number", [0, 3, 10**9, 10**30])
def test_a_number_that_is_not_in_the_chapter_is_404(chapter: Session, number: int) -> None:
    chosen = attempts(chapter)[1]["attempt_id"]
    for response in (
        call("GET", address(chapter, f"turns/{number}")),
        choose(chapter, chosen, number),
        edit(chapter, number=number),
    ):
        assert_problem(response, 404, "unknown-turn")


class TestWitnesses:
    def test_the_one_addressed_always_counts(self, provider: ScriptedProvider) -> None:
        chapter = make_active_chapter()
        for witnesses in ([3], [], [3, 1], [1, 2, 3]):
            sent = call("POST", address(chapter, "prompt"), {**PROMPT, "witnesses": witnesses})
            assert sent.status_code == 201
            number = sent.json()["prompt_index"]
            assert attempts(chapter, number)[0]["witnesses"] == sorted({*witnesses, 1})

    @pytest.mark.parametrize("witnesses", WRONG_WITNESSES)
    def test_unknown_and_doubled_ones_are_refused(
        self, chapter: Session, provider: ScriptedProvider, witnesses: Any
    ) -> None:
        before = Attempt.objects.count()
        body = {**PROMPT, "witnesses": witnesses}
        assert_problem(call("POST", address(chapter, "prompt"), body), 422, "invalid-input")
        assert_problem(reroll(chapter, {"witnesses": witnesses}), 422, "invalid-input")
        assert Attempt.objects.count() == before
        assert provider.history == []

    def test_a_broken_prompt_is_sent_again_as_the_document_says(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(ProviderTimeout("slow"))
        sent = {"agent_slot": 2, "user_text": "Psst.", "witnesses": [1]}
        call("POST", address(chapter, "prompt"), sent)
        pending = call("GET", address(chapter)).json()["pending_turn"]
        assert pending["witnesses"] == [1, 2]
        provider.enqueue("I hear.")
        again = {name: pending[name] for name in ("agent_slot", "user_text", "witnesses", "given")}
        key = {"Idempotency_Key": pending["submission_key"]}
        assert call("POST", address(chapter, "prompt"), again, **key).status_code == 201
        assert chapter.attempts.get(submission_key=pending["submission_key"]).witnesses == [1, 2]


class TestReroll:
    def test_it_may_have_other_words_another_agent_and_other_witnesses(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("I step through.")
        body = {"agent_slot": 3, "user_text": "A bell rings.", "witnesses": [2]}
        answer = reroll(chapter, body).json()
        assert (answer["kind"], answer["prompt_index"]) == ("reroll", 2)
        newest = attempts(chapter)[-1]
        assert newest["attempt_id"] == answer["attempt_id"] == answer["turn_id"]
        said = {"agent_slot": 3, "words": "A bell rings.", "witnesses": [2, 3]}
        assert said.items() <= newest.items()
        assert newest["events"] == answer["events"]
        assert told(chapter) == ["beat 1", "reply 1", "A bell rings.", "I step through."]
        assert "A bell rings." in str(provider.history[-1].messages)
        assert "beat 2" not in str(provider.history[-1].messages)

    def test_sent_again_it_means_what_it_meant_before_another_was_chosen(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        body, key = {"witnesses": [1]}, {"Idempotency_Key": "k"}
        first = call("POST", address(chapter, "reroll"), body, **key)
        assert first.status_code == 201
        assert reroll(chapter, {"agent_slot": 3}).status_code == 201
        again = call("POST", address(chapter, "reroll"), body, **key)
        assert (again.status_code, again.json()) == (201, first.json())

    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            ({"user_text": "x" * 5_001}, "too-long"),
            ({"user_text": " \n"}, "invalid-input"),
            ({"user_text": 5}, "invalid-input"),
            ({"agent_slot": 4}, "invalid-input"),
            ({"agent_slot": "1"}, "invalid-input"),
            ({"words": "A bell rings."}, "invalid-input"),
            ([], "invalid-input"),
        ],
    )
    def test_what_is_wrong_is_refused_and_not_stored(
        self, chapter: Session, provider: ScriptedProvider, body: Any, kind: str
    ) -> None:
        assert_problem(reroll(chapter, body), 422, kind)
        assert len(attempts(chapter)) == 2
        assert provider.history == []

    def test_sent_again_it_is_the_same_attempt_and_other_words_are_refused(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        body = {"user_text": "A bell rings."}
        first = reroll(chapter, body, Idempotency_Key="k")
        assert reroll(chapter, body, Idempotency_Key="k").json() == first.json()
        other = reroll(chapter, {"user_text": "No bell rings."}, Idempotency_Key="k")
        assert_problem(other, 409, "key-reused")
        assert len(attempts(chapter)) == 3


class TestChoosing:
    def test_the_story_goes_by_the_chosen_attempt_and_no_model_is_called(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        response = choose_the_first(chapter)
        assert response.status_code == 200
        assert response.json() == turn(chapter)
        assert [one["is_chosen"] for one in attempts(chapter)] == [True, False]
        assert told(chapter) == ["beat 1", "reply 1", "beat 2", "reply 2"]
        assert choose_the_first(chapter).json() == response.json()
        assert provider.history == []
        assert not LLMArtifact.objects.exists()

    def test_what_is_no_committed_attempt_at_this_turn_is_404(self, chapter: Session) -> None:
        other = make_active_chapter()
        add_prompts(other, 2)
        broken = add_attempt(
            chapter, kind="reroll", turn=chapter.turns.get(number=2), status="stopped"
        )
        for attempt_id in (
            uuid.uuid4(),
            broken.pk,
            attempts(chapter, 1)[0]["attempt_id"],
            attempts(other)[0]["attempt_id"],
        ):
            assert_problem(choose(chapter, attempt_id), 404, "unknown-turn")
        assert told(chapter)[-1] == "another reply"


class TestEditing:
    def test_the_edited_reply_is_an_attempt_of_its_own_and_is_chosen(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        assert reroll(chapter, {"agent_slot": 3, "witnesses": [2]}).status_code == 201
        calls = len(provider.history)
        response = edit(chapter, "By\r\nhand.")
        answer = response.json()
        assert response.status_code == 201
        assert (answer["kind"], answer["prompt_index"]) == ("edit", 2)
        assert [event["text"] for event in answer["events"]] == ["beat 2", "By\nhand."]
        assert told(chapter)[-2:] == ["beat 2", "By\nhand."]
        before, newest = attempts(chapter)[-2:]
        assert (newest["attempt_id"], newest["is_chosen"]) == (answer["attempt_id"], True)
        for name in ("agent_slot", "words", "witnesses", "status"):
            assert newest[name] == before[name]
        assert before["events"][-1]["text"] != "By\nhand."
        assert len(provider.history) == calls

    def test_sent_again_it_is_the_same_attempt_also_after_play_has_gone_on(
        self, chapter: Session
    ) -> None:
        first = edit(chapter, Idempotency_Key="k")
        assert edit(chapter, Idempotency_Key="k").json() == first.json()
        add_prompts(Session.objects.get(pk=chapter.pk), 1)
        again = edit(chapter, Idempotency_Key="k")
        assert (again.status_code, again.json()) == (201, first.json())
        assert_problem(edit(chapter, "Otherwise.", Idempotency_Key="k"), 409, "key-reused")
        assert len(attempts(chapter)) == 3


@pytest.mark.parametrize("act", [choose_the_first, edit])
class TestWhenNothingCanChange:
    @pytest.mark.parametrize("fields", [{"state": "ENDED"}, {"is_ending": True}])
    def test_outside_play(
        self, chapter: Session, act: Callable[[Session], Any], fields: dict[str, Any]
    ) -> None:
        Session.objects.update(**fields)
        assert_problem(act(chapter), 409, "wrong-state")
        assert told(chapter)[-1] == "another reply"


@pytest.mark.parametrize("action", ["choose", "edit", "reroll"])
def test_while_a_reply_is_in_flight_nothing_changes(
    chapter: Session, provider: ScriptedProvider, action: str
) -> None:
    gate = asyncio.Event()
    provider.enqueue(Script("One two three.", gate=gate, gate_at=1))
    path, body = {
        "choose": ("turns/2/choose", {"attempt_id": attempts(chapter)[0]["attempt_id"]}),
        "edit": ("turns/2/edit", {"text": "By hand."}),
        "reroll": ("reroll", {"user_text": "A bell rings."}),
    }[action]

    async def scenario() -> tuple[Any, Any]:
        prompt = asyncio.create_task(acall("POST", address(chapter, "prompt"), PROMPT))
        await reply_is_running()
        refused = await acall("POST", address(chapter, path), body)
        gate.set()
        return await prompt, refused

    prompt, refused = in_loop(scenario)
    assert_problem(refused, 409, "turn-in-flight")
    assert prompt.status_code == 201
    assert told(chapter)[2:] == ["beat 2", "another reply", "The door opens.", "One two three."]


@pytest.mark.parametrize("action", ["turns/1/choose", "turns/1/edit"])
def test_before_the_first_turn_there_is_none(action: str) -> None:
    body = {"attempt_id": str(uuid.uuid4())} if "choose" in action else {"text": "By hand."}
    assert_problem(call("POST", address(make_chapter(), action), body), 404, "unknown-turn")


class TestTheWorld:
    """Tests of thoughts, changes and acts."""

    @pytest.fixture
    def deep(self) -> Session:
        """Return a chapter of one turn. The turn has a thought, an event with data in `shown`, a
        change that a step made, and an act."""
        chapter = make_active_chapter()
        attempt = open_prompt(chapter.pk, actor=1, words="Go.", submission_key="k").attempt
        store_changes(attempt, [NewChange("lost", {})])
        fail_attempt(attempt, error="No answer.", partial_text="")
        attempt = open_prompt(chapter.pk, actor=1, words="Go.", submission_key="k").attempt
        store_changes(attempt, [NewChange("went", {"to": "quay"}, cause="go", step=1)])
        outcome = [
            NewEvent("I go.", 1, shown={"frame": "quay"}),
            NewEvent("I will not come back.", 1, kind=THOUGHT),
        ]
        commit_attempt(attempt, outcome)
        act(chapter.pk, [NewChange("took", {"what": "rope"}, cause="act")])
        return chapter

    def test_an_event_tells_its_kind_and_what_is_shown_of_it(self, deep: Session) -> None:
        [_, reply] = attempts(deep, 1)[0]["events"]
        assert (reply["kind"], reply["shown"]) == ("said", {"frame": "quay"})

    def test_thoughts_are_told_only_when_asked_for(self, deep: Session) -> None:
        for query, kinds in (
            ("", ["said", "said"]),
            ("?thoughts=0", ["said", "said"]),
            ("?thoughts=1", ["said", "said", "thought"]),
        ):
            session = call("GET", address(deep) + query).json()
            [attempt] = call("GET", address(deep, "turns/1") + query).json()["attempts"]
            for events in (session["events"], attempt["events"]):
                assert [event["kind"] for event in events] == kinds
        for path in ("", "turns/1"):
            answer = call("GET", address(deep, path) + "?thoughts=x")
            assert_problem(answer, 422, "invalid-input")

    def test_an_attempt_lists_the_changes_of_its_last_run_and_the_acts(self, deep: Session) -> None:
        changes = attempts(deep, 1)[0]["changes"]
        assert [
            (one["kind"], one["is_act"], one["payload"], one["cause"], one["step"])
            for one in changes
        ] == [
            ("went", False, {"to": "quay"}, "go", 1),
            ("took", True, {"what": "rope"}, "act", 0),
        ]
