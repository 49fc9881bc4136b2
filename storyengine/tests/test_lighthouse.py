"""Tests of what the lighthouse has and not every mode: tools in each form, acts, luck, and results
that come late. `every_mode` proves what holds for any mode."""

import asyncio
from typing import Any

import pytest

from agents.calling.tests.exploring import form as form
from agents.calling.tests.exploring import native as native
from agents.calling.tests.exploring import says, sent_text
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import Job
from agents.prompting.tools import ToolForm
from agents.running.database import in_database
from sessions.models import Attempt, Session
from sessions.play.breaking import stop_attempt
from sessions.tests.factories import make_active_chapter
from storyengine.api.tests.calling import (
    RunJobs,
    acall,
    address,
    assert_problem,
    call,
    in_loop,
    reply_is_running,
)
from storyengine.tests.playing_the_lighthouse import (
    act,
    attempts,
    changes,
    chosen,
    light_of,
    played,
    prompt,
    reroll,
)
from storyengine.tests.playing_the_lighthouse import chapter as chapter
from storyengine.tests.playing_the_lighthouse import lighthouse as lighthouse

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("native", "lighthouse")]


class TestWithoutWords:
    def test_who_needs_words_is_not_asked_without(self, chapter: Session) -> None:
        problem = assert_problem(prompt(chapter, 1, " \n"), 422, "invalid-input")
        assert "The prompt is empty" in problem["detail"]

    def test_a_re_roll_of_words_needs_some(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("I climb.")
        played(chapter)
        answer = call("POST", address(chapter, "reroll"), {"user_text": ""})
        assert_problem(answer, 422, "invalid-input")


class TestEvents:
    def test_a_turn_may_come_to_several_with_a_kind_and_a_form_of_their_own(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("I climb.\n\n*signal* Keep off.")
        [_, said, shown] = played(chapter)
        assert (said["kind"], said["text"], said["shown"]) == ("said", "I climb.", None)
        assert (shown["kind"], shown["text"]) == ("lighthouse.signal", "Keep off.")
        assert shown["shown"] == {"flashes": 9}

    def test_a_kind_that_is_not_declared_is_not_stored(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("*forged* Boo.")
        assert prompt(chapter).status_code == 502
        assert not chapter.events.exists()


class TestTools:
    def test_a_call_changes_the_world_that_the_next_step_and_turn_are_told(
        self, chapter: Session, provider: ScriptedProvider, form: ToolForm
    ) -> None:
        provider.enqueue(
            says(form, "I light it.", ("light", {"lamp": "north"}), ("light", {"lamp": "south"})),
            says(form, "It burns."),
            says(form, "I see it."),
        )
        events = played(chapter)
        assert [one["text"] for one in events[1:]] == ["I light it.", "It burns."]
        lit = [("lighthouse.lit", {"lamp": name}) for name in ("north", "south")]
        assert changes(chapter, 1) == lit
        assert {(one["cause"], one["step"]) for one in chosen(chapter, 1)["changes"]} == {
            ("light", 1)
        }
        played(chapter, 2)
        before, after, next_turn = map(sent_text, provider.history)
        assert "Lamps: none." in before
        for told in (after, next_turn):
            assert "Lamps: north, south." in told

    def test_a_call_beyond_the_changes_of_an_attempt_changes_nothing_and_says_so(
        self, chapter: Session, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sessions.play.played_world.MAX_CHANGES_OF_AN_ATTEMPT", 2)
        lamps = [("light", {"lamp": name}) for name in ("a", "b", "c")]
        again = says("native", "Again.", lamps[2])
        provider.enqueue(says("native", "I light them.", *lamps), again, "It burns.")
        played(chapter)
        lit = [("lighthouse.lit", {"lamp": name}) for name in ("a", "b")]
        assert changes(chapter, 1) == lit
        told = [sent_text(one) for one in provider.history]
        refusal = "It changed nothing: with it, this reply would change more"
        assert [one.count(refusal) for one in told] == [0, 1, 2]
        # An act at this turn would exceed the limit too.
        refused = assert_problem(act(chapter, litres=1), 422, "invalid-input")
        assert "go on with the story first" in refused["detail"]
        assert changes(chapter, 1) == lit

    def test_a_reply_that_was_stopped_elsewhere_stores_no_further_step(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        gate = asyncio.Event()
        lights = says("native", "I light it.", ("light", {"lamp": "north"}))
        provider.enqueue(Script(lights.text, tool_calls=lights.tool_calls, gate=gate, gate_at=2))

        async def scenario() -> Any:
            sent = asyncio.create_task(
                acall("POST", address(chapter, "prompt"), {"agent_slot": 1, "user_text": "Go."})
            )
            await reply_is_running()
            # Another process stops an attempt by this function.
            await in_database(lambda: stop_attempt(Attempt.objects.get()))
            gate.set()
            return await sent

        problem = assert_problem(in_loop(scenario), 409, "turn-stopped")
        assert problem["pending_turn"]["partial_text"] == "I light it."
        assert not chapter.changes.exists()
        assert len(provider.history) == 1

    def test_a_dry_run_shows_what_the_first_step_would_be_sent(
        self, chapter: Session, provider: ScriptedProvider, form: ToolForm
    ) -> None:
        body = {"agent_slot": 2, "user_text": "Go on."}
        layers = call("POST", address(chapter, "dry-run"), body).json()["layers"]
        provider.enqueue(says(form, "I climb."))
        played(chapter, 2)
        [sent] = provider.history
        assert "\n\n".join(message.content for message in sent.messages) == "\n\n".join(
            layer["text"] for layer in layers
        )


class TestActs:
    @pytest.fixture(autouse=True)
    def _begun(self, chapter: Session, provider: ScriptedProvider) -> None:
        provider.enqueue("I climb.")
        played(chapter)

    def test_it_changes_the_world_without_a_model_and_closes_the_turn(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        answer = act(chapter, litres=10)
        assert answer.status_code == 201
        assert answer.json()["prompt_index"] == 1
        [change] = answer.json()["changes"]
        assert (change["kind"], change["payload"]) == ("lighthouse.oil", {"litres": 10})
        assert (change["is_act"], change["cause"]) == (True, "refuel")
        assert len(provider.history) == 1
        assert chosen(chapter, 1)["changes"] == [change]
        assert_problem(call("POST", address(chapter, "reroll"), {}), 409, "wrong-state")
        played(chapter)
        assert "Oil: 15." in sent_text(provider.history[-1])

    def test_one_that_is_not_declared_is_refused_with_those_that_are(
        self, chapter: Session
    ) -> None:
        problem = assert_problem(act(chapter, "sink"), 422, "invalid-input")
        assert "'sink' is no act of this way to play; there is refuel." in problem["detail"]
        other = make_active_chapter()
        assert "there is none" in assert_problem(act(other), 422, "invalid-input")["detail"]

    @pytest.mark.parametrize(
        "arguments", [{}, {"litres": "much"}, {"litres": 1, "to": 2}, {"litres": 16}, {"\x00": 1}]
    )
    def test_arguments_that_do_not_fit_change_nothing(
        self, chapter: Session, arguments: dict[str, Any]
    ) -> None:
        assert_problem(act(chapter, **arguments), 422, "invalid-input")
        assert not chapter.changes.exists()

    def test_each_knows_what_the_one_before_has_changed(self, chapter: Session) -> None:
        assert act(chapter, litres=10).status_code == 201
        assert_problem(act(chapter, litres=10), 422, "invalid-input")
        assert light_of(chapter).oil == 15

    def test_nobody_acts_without_end_in_one_turn(
        self, chapter: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sessions.play.acts.MAX_ACTS_OF_A_TURN", 2)
        answers = [act(chapter, litres=1) for _ in range(3)]
        assert [answer.status_code for answer in answers[:2]] == [201, 201]
        assert "go on with the story" in assert_problem(answers[2], 409, "wrong-state")["detail"]
        assert light_of(chapter).oil == 7

    def test_before_the_first_turn_there_is_nothing_to_follow(self) -> None:
        assert_problem(act(make_active_chapter(mode="lighthouse"), litres=1), 409, "wrong-state")


def test_another_attempt_has_the_same_luck(chapter: Session, provider: ScriptedProvider) -> None:
    feels = says("native", "I feel it.", ("feel", {}))
    provider.enqueue(feels, "Cold.", feels, "Icy.", feels, "Warm.")
    played(chapter)
    reroll(chapter)
    played(chapter)
    (first, again), (later,) = attempts(chapter, 1), attempts(chapter, 2)
    assert first["changes"][0]["payload"] == again["changes"][0]["payload"]
    assert later["changes"][0]["payload"] != again["changes"][0]["payload"]


class TestLateResults:
    @pytest.fixture(autouse=True)
    def _asked(self, chapter: Session, provider: ScriptedProvider) -> None:
        provider.enqueue("The sea is calm.")
        played(chapter, None, "")

    def test_an_edited_attempt_asks_at_once(
        self, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        run_jobs()
        edit = call("POST", address(chapter, "turns/1/edit"), {"text": "The sea is rough."})
        assert edit.status_code == 201
        assert run_jobs() == 1
        provider.enqueue("I climb.", "I wait.")
        played(chapter)
        assert changes(chapter, 2) == [("lighthouse.tide_came", {"level": 1})]
        played(chapter)
        assert changes(chapter, 3) == []
        # Each prompt asks for the result again, but it is worked out only once.
        assert Job.objects.filter(attempt_id=edit.json()["attempt_id"]).count() == 1
