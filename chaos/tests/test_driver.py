"""Tests that a fault counts only if it really had an effect, and that the client notices what is
wrong while it plays."""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

from chaos import client as client_module
from chaos.client import NOTHING, Client, Told
from chaos.driver import Driver
from chaos.journal import Journal, Key, Words
from chaos.scenarios import Scenario
from chaos.schedule import Fault
from chaos.stack import Stack, was_killed
from testing.http_calls import Server, StreamEvent
from testing.program import open_processes
from testing.session_data import Setup

ID = "chapter-1"
# The scenario of a mode that has all stages.
SCENARIO = Scenario("any")
NO_ANSWER, REFUSED = NOTHING, Told(409)
STATES = {"lock": "DRAFT_TAB1", "prompt": "ACTIVE", "end": "ACTIVE", "build-narrative": "ENDED"}


class ScriptedClient(Client):
    """A client whose chapter needs the call `verb` next. The calls return the `answers` in
    order."""

    def __init__(self, verb: str, answers: Sequence[Told] = ()) -> None:
        super().__init__([Server("127.0.0.1", 1)], Journal())
        self._verb, self._answers = verb, list(answers)
        self.asked: list[str] = []

    def create(self, *_: object) -> str:
        return ID

    def read(self, _session_id: str) -> dict[str, Any]:
        return {
            "state": STATES[self._verb],
            "prompt_index": 99 if self._verb == "end" else 0,
            "last_summarized_prompt_index": 99 if self._verb == "end" else 0,
            "config": {"chunk_size_prompts": 7},
            "next_agent_slot": 1,
            "pending_turn": None,
            "is_ending": False,
            "narrative_drafts": [],
            "jobs": [],
        }

    def send(
        self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None
    ) -> Told:
        if path.endswith("/narrative-agent"):
            return Told(200)
        self.asked.append(path.rpartition("/")[2])
        return self._answers.pop(0) if self._answers else REFUSED

    def prompt(self, key: Key, words: Words, *, streams: bool = False) -> Told:
        return self.send("POST", f"/api/session/{key[0]}/prompt")


class ScriptedStack:
    def __init__(self, *, hits: bool = True, unmet: int = 0) -> None:
        self._hits, self._unmet = hits, unmet

    def kill_and_start(self, _kind: str, _choice: int) -> bool:
        return self._hits

    def queue_faults(self, *_: object) -> None:
        pass

    def unmet_faults(self) -> int:
        return self._unmet


def is_met(
    kind: str, client: Client, stack: ScriptedStack | None = None, *, repeats: int = 1
) -> bool:
    driver = Driver(cast(Stack, stack or ScriptedStack()), client, [SCENARIO])
    return driver.step(Fault(1, kind, 4, repeats))


@pytest.fixture(autouse=True)
def _kill_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.driver.LONGEST_FUSE", 0)


@pytest.mark.parametrize("hits", [True, False])
def test_a_kill_is_met_by_a_process_that_was_running(hits: bool) -> None:
    assert is_met("kill-web", ScriptedClient("prompt"), ScriptedStack(hits=hits)) == hits


@pytest.mark.parametrize(("unmet", "met"), [(5, False), (4, True), (0, True)])
def test_a_fault_of_a_model_is_met_by_a_call(unmet: int, met: bool) -> None:
    stack = ScriptedStack(unmet=unmet)
    assert is_met("500", ScriptedClient("prompt"), stack, repeats=5) == met


@pytest.mark.parametrize("verb", STATES)
@pytest.mark.parametrize(("kind", "times"), [("twice", 2), ("tenfold", 10)])
def test_a_form_is_sent_again_where_each_was_answered(verb: str, kind: str, times: int) -> None:
    client = ScriptedClient(verb, [REFUSED] * times)
    assert is_met(kind, client)
    assert client.asked == [verb] * times
    assert not is_met(kind, ScriptedClient(verb, [REFUSED] * (times - 1) + [NO_ANSWER]))


@pytest.mark.parametrize("verb", STATES)
def test_two_tabs_are_two_requests_that_were_answered(verb: str) -> None:
    client = ScriptedClient(verb)
    assert is_met("two-tabs", client)
    other = "prompt" if verb == "prompt" else "tab1"
    assert sorted(client.asked) == sorted([verb, other])
    assert client.violations == []
    for answers in ([NO_ANSWER, REFUSED], [REFUSED, NO_ANSWER]):
        assert not is_met("two-tabs", ScriptedClient(verb, answers))


def test_a_stale_tab_that_overwrites_a_locked_setup_is_a_violation() -> None:
    client = ScriptedClient("end", [Told(200), Told(200)])
    is_met("two-tabs", client)
    assert [violation.rule for violation in client.violations] == ["a stale tab changes nothing"]


def test_two_forks_of_one_form_are_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    for share, value in (("REROLL", 0), ("FORK", 1), ("FOLLOW", 1)):
        monkeypatch.setattr(f"chaos.driver.{share}_SHARE", value)

    class Forks(ScriptedClient):
        def read(self, session_id: str) -> dict[str, Any]:
            self.journal.setups.setdefault(session_id, Setup("", "", {}, {}))
            return super().read(session_id) | {"prompt_index": 5}

    client = Forks("prompt", [Told(201, {"session_id": f"fork-{number}"}) for number in (1, 2)])
    assert is_met("twice", client)
    assert [one.rule for one in client.violations] == ["a form sent again is one fork"]


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


@pytest.mark.parametrize("is_reaped", [True, False])
def test_a_process_that_had_ended_was_not_killed(is_reaped: bool) -> None:
    with open_processes({}) as processes:
        processes.start("running", ["sleep", "600"])
        ended = processes.start("ended", ["true"])
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        if is_reaped:
            ended.wait()
        assert was_killed(processes, "running")
        assert not was_killed(processes, "ended")
