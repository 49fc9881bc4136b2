"""Tests that a chapter is played as the scenario of its mode says. The client also retries prompts
that it has not sent itself."""

import itertools
import json
from collections.abc import Iterator
from typing import Any, ClassVar, cast

import pytest

from chaos import client as client_module
from chaos.client import Client, Told
from chaos.driver import Driver
from chaos.journal import Journal, Key, Words
from chaos.scenarios import Scenario
from chaos.schedule import Fault
from chaos.stack import Stack
from chaos.tests.test_driver import (
    ID,
    NO_ANSWER,
    REFUSED,
    SCENARIO,
    Forks,
    ScriptedClient,
    ScriptedStack,
)
from testing.http_calls import Server, StreamEvent


@pytest.fixture(autouse=True)
def _kill_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.driver.LONGEST_FUSE", 0)


def driver_of(client: Client, scenario: Scenario) -> Driver:
    return Driver(cast(Stack, ScriptedStack()), client, [scenario])


def test_a_mode_says_which_prompts_it_takes() -> None:
    prompts: list[dict[str, Any]] = [
        {"agent_slot": None, "user_text": ""},
        {"agent_slot": 2, "given": {"degrees": 90}},
        {"agent_slot": 3, "user_text": "Keep watch"},
    ]
    sent: list[Words] = []

    class Noting(ScriptedClient):
        def prompt(self, key: Key, words: Words, *, streams: bool = False) -> Told:
            sent.append(words)
            return Told(201)

    driver = driver_of(Noting("prompt"), Scenario("any", prompts=prompts))
    for choices in range(30):
        driver.step(Fault(1, "kill-web", choices))
    own = [one for one in sent if one.given]
    assert {(one.agent_slot, one.text) for one in sent if not one.given} == {
        (None, ""),
        (3, "Keep watch"),
    }
    assert {one.agent_slot for one in own} == {2}
    assert len({one.text for one in own}) == len(own) > 1


def test_an_act_of_the_mode_is_done_between_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.driver.ACT_SHARE", 1)
    monkeypatch.setattr("chaos.driver.REROLL_SHARE", 0)
    monkeypatch.setattr("chaos.driver.FORK_SHARE", 0)
    refuel = {"act": "refuel", "arguments": {"litres": 1}}
    client = Forks("prompt", [Told(201), Told(422), REFUSED, NO_ANSWER])
    driver = driver_of(client, Scenario("any", acts=[refuel]))
    for _ in range(4):
        driver.step(Fault(1, "kill-web", 4))
    assert client.asked == ["act"] * 4
    # Only the answer 201 confirms an act. The mode may refuse an act with 422.
    assert client.journal.acts == {ID: 1}
    assert client.violations == []


class WithPending(ScriptedClient):
    """A client whose chapter has a broken prompt. The client has not sent this prompt."""

    pending: ClassVar[dict[str, Any]] = {
        "kind": "prompt",
        "status": "failed",
        "submission_key": "after attempt-1",
        "agent_slot": 2,
        "user_text": "",
        "partial_text": "",
    }

    def read(self, session_id: str) -> dict[str, Any]:
        return super().read(session_id) | {"pending_turn": dict(self.pending)}


@pytest.mark.parametrize(("kind", "is_retried"), [("prompt", True), ("reroll", False)])
def test_what_nobody_sent_is_retried_under_its_key(
    monkeypatch: pytest.MonkeyPatch, kind: str, is_retried: bool
) -> None:
    monkeypatch.setattr("chaos.driver.RETRY_SHARE", 1)
    client = WithPending("prompt")
    monkeypatch.setitem(client.pending, "kind", kind)
    driver_of(client, SCENARIO).step(Fault(1, "leave", 4))
    assert (client.left == [(ID, "after attempt-1")]) == is_retried


def test_those_who_act_alone_are_watched_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """While characters act without a prompt, the client waits, but only for a limited time. Then it
    sends its prompt."""
    monkeypatch.setattr("chaos.driver.POLL_SECONDS", 0)
    clock = itertools.count()
    monkeypatch.setattr("chaos.driver.time.monotonic", lambda: next(clock))
    reads: list[int] = []

    class Watching(ScriptedClient):
        def read(self, session_id: str) -> dict[str, Any]:
            reads[-1] += 1
            jobs = [{"kind": "go_on", "status": "queued"}]
            return super().read(session_id) | {"jobs": jobs}

    for choices in range(8):
        client = Watching("prompt")
        reads.append(0)
        driver_of(client, SCENARIO).step(Fault(1, "twice", choices))
        assert client.asked == ["prompt"] * 2
    assert min(reads) == 1
    assert max(reads) > 5


@pytest.mark.parametrize(
    ("texts", "shown", "is_told"),
    [
        (["I climb."], "I climb.", True),
        (["I climb."], "I climb. I row.", False),
        (["I climb.", "Keep off."], "I climb.\n\n*signal* Keep off.", True),
        (["Keep off.", "I climb."], "I climb.\n\n*signal* Keep off.", False),
        (["I climb.", "Keep away."], "I climb.\n\n*signal* Keep off.", False),
        ([], "I climb.", False),
    ],
)
def test_a_stream_shows_the_texts_of_all_events(
    monkeypatch: pytest.MonkeyPatch, texts: list[str], shown: str, is_told: bool
) -> None:
    events = [{"event_id": text, "role": "agent", "text": text} for text in texts]
    turn = {"prompt_index": 1, "events": events}

    def stream(*_: object, **__: object) -> Iterator[StreamEvent]:
        yield StreamEvent("token", json.dumps({"text": shown}), 0)
        yield StreamEvent("turn", json.dumps(turn), 0)

    monkeypatch.setattr(client_module, "stream", stream)
    client = Client([Server("127.0.0.1", 1)], Journal())
    client.prompt((ID, "key-1"), Words(2, ""), streams=True)
    found = {violation.rule for violation in client.violations}
    assert ("streams show the reply" not in found) == is_told
    reply = client.journal.answered[ID, "key-1"]
    assert reply.events == tuple((text, text) for text in texts)


def test_a_mode_of_its_own_is_played_as_it_says() -> None:
    """The scenario of this mode names no actor.

    The mode has no narration, so a chapter is complete when it has ended.
    """
    explorer = Scenario("explorer", prompts=[{"agent_slot": None}], is_narrated=False)
    made: list[object] = []

    class Explorer(ScriptedClient):
        def create(self, *told: object) -> str:
            made.append(told[1])
            return ID

        def prompt(self, key: Key, words: Words, *, streams: bool = False) -> Told:
            made.append(words.agent_slot)
            return Told(201)

        def read(self, session_id: str) -> dict[str, Any]:
            is_first = made.count(explorer) == 1
            return super().read(session_id) | {"state": "ENDED" if is_first else "ACTIVE"}

    driver = Driver(cast(Stack, ScriptedStack()), Explorer("prompt"), [explorer])
    driver.step(Fault(1, "kill-web", 4))
    assert made == [explorer, explorer, None]
