"""Tests that a fault counts only if it really had an effect."""

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
from testing.http_calls import RunError, Server, StreamEvent
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
        self.left: list[Key] = []
        self.word_comes = True

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

    def leave(self, key: Key, _words: Words) -> bool:
        self.left.append(key)
        return self.word_comes


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


def test_a_step_without_a_chapter_meets_nothing() -> None:
    client = ScriptedClient("prompt")
    client.create = lambda *_: ""  # type: ignore[method-assign]
    assert not is_met("twice", client)


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


def test_words_that_another_tab_went_on_without_are_not_sent_for_ever() -> None:
    aside = Told(409, {"detail": "This prompt was set aside, because play went on without it."})
    client = ScriptedClient("prompt", [aside, aside])
    driver = Driver(cast(Stack, ScriptedStack()), client, [SCENARIO])
    for _ in range(2):
        driver.step(Fault(1, "leave", 4))
    assert len(set(client.left)) == 1
    driver.step(Fault(2, "twice", 4))
    driver.step(Fault(1, "leave", 4))
    assert len(set(client.left)) == 2


def test_a_stale_tab_that_overwrites_a_locked_setup_is_a_violation() -> None:
    client = ScriptedClient("end", [Told(200), Told(200)])
    is_met("two-tabs", client)
    assert [violation.rule for violation in client.violations] == ["a stale tab changes nothing"]


class Forks(ScriptedClient):
    """A client whose chapter has five prompts, so that it can be forked."""

    def __init__(self, verb: str, answers: Sequence[Told] = ()) -> None:
        super().__init__(verb, answers)
        self.keys: list[str] = []
        self.read_ids: list[str] = []

    def send(
        self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None
    ) -> Told:
        self.keys.append((headers or {}).get("Idempotency-Key", ""))
        return super().send(method, path, body)

    def read(self, session_id: str) -> dict[str, Any]:
        self.read_ids.append(session_id)
        self.journal.setups.setdefault(session_id, Setup("", "", {}, {}))
        return super().read(session_id) | {"prompt_index": 5}


@pytest.fixture
def _forks_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.driver.REROLL_SHARE", 0)
    monkeypatch.setattr("chaos.driver.FORK_SHARE", 1)
    monkeypatch.setattr("chaos.driver.FOLLOW_SHARE", 1)


@pytest.mark.usefixtures("_forks_always")
class TestForks:
    def test_a_form_is_sent_again_until_it_was_answered_and_play_goes_on_in_the_fork(self) -> None:
        made = Told(201, {"session_id": "fork-1"})
        client = Forks("prompt", [NO_ANSWER, REFUSED, REFUSED, made])
        driver = Driver(cast(Stack, ScriptedStack()), client, [SCENARIO])
        assert not driver.step(Fault(1, "twice", 4))
        assert client.journal.forks == {}
        assert driver.step(Fault(1, "twice", 5))
        assert client.asked == ["fork"] * 4
        [(form, fork)] = client.journal.forks.items()
        assert (form[0], fork) == (ID, "fork-1")
        assert set(client.keys) == {form[1]}
        assert client.violations == []
        driver.step(Fault(2, "twice", 4))
        assert client.read_ids[-1] == "fork-1"

    def test_two_of_one_form_are_a_violation(self) -> None:
        answers = [Told(201, {"session_id": f"fork-{number}"}) for number in (1, 2)]
        client = Forks("prompt", answers)
        assert is_met("twice", client)
        assert [one.rule for one in client.violations] == ["a form sent again is one fork"]

    def test_what_a_model_does_wrong_meets_no_fork(self) -> None:
        client = Forks("prompt")
        is_met("500", client)
        assert client.asked == ["prompt"]


class Choices(ScriptedClient):
    """A client whose latest turn has two committed attempts and one that failed.

    The second of the committed attempts is chosen.
    """

    def send(
        self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None
    ) -> Told:
        self.asked.append(
            f"{method} {path.rpartition('/')[2]} {body['attempt_id'] if body else ''}"
        )
        attempts = [
            {"attempt_id": "a", "is_chosen": False, "status": "committed"},
            {"attempt_id": "b", "is_chosen": True, "status": "committed"},
            {"attempt_id": "c", "is_chosen": False, "status": "failed"},
        ]
        return Told(200, {"attempts": attempts})

    def read(self, session_id: str) -> dict[str, Any]:
        return super().read(session_id) | {"prompt_index": 5}


def test_a_turn_is_made_to_go_by_another_of_its_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.driver.CHOICE_SHARE", 1)
    monkeypatch.setattr("chaos.driver.FORK_SHARE", 0)
    client = Choices("prompt")
    for choices in range(8):
        client.asked.clear()
        before = client.journal.choices
        driver = Driver(cast(Stack, ScriptedStack()), client, [SCENARIO])
        monkeypatch.setattr("chaos.driver.REROLL_SHARE", 1)
        driver.step(Fault(1, "kill-web", choices))
        monkeypatch.setattr("chaos.driver.REROLL_SHARE", 0)
        driver.step(Fault(1, "kill-web", choices))
        reroll, turn, chosen = client.asked
        assert reroll == "POST reroll "
        assert turn == "GET 5 "
        # The client chooses attempt a, because attempt b is chosen already and the failed attempt
        # cannot be chosen.
        assert (chosen, client.journal.choices - before) == ("POST choose a", 1)


@pytest.mark.parametrize(
    ("scenario", "agent"),
    [
        (SCENARIO, 1),
        (Scenario("any", has_numbered_agents=False), None),
    ],
)
def test_a_fault_waits_for_a_character_where_characters_have_numbers(
    scenario: Scenario, agent: int | None
) -> None:
    waited: list[object] = []

    class Noting(ScriptedStack):
        def queue_faults(self, *told: object) -> None:
            waited.append(told[-1])

    driver = Driver(cast(Stack, Noting()), ScriptedClient("prompt"), [scenario])
    driver.step(Fault(1, "500", 4))
    assert waited == [agent]


@pytest.mark.parametrize("word_comes", [True, False])
def test_leaving_is_met_where_a_word_came_before(word_comes: bool) -> None:
    client = ScriptedClient("prompt")
    client.word_comes = word_comes
    assert is_met("leave", client) == word_comes


def test_a_step_that_sends_no_prompt_is_played_and_cannot_be_left() -> None:
    client = ScriptedClient("lock")
    assert not is_met("leave", client)
    assert client.asked == ["lock"]


@pytest.mark.parametrize(
    ("name", "is_kept", "was_left"),
    [("token", True, True), ("turn", True, False), ("error", True, False), ("", False, False)],
)
def test_only_a_reply_that_was_being_written_can_be_left(
    monkeypatch: pytest.MonkeyPatch, name: str, is_kept: bool, was_left: bool
) -> None:
    def stream(*_: object, **__: object) -> Iterator[StreamEvent]:
        if not name:
            raise RunError("409")
        yield StreamEvent(name, "{}", 0)

    monkeypatch.setattr(client_module, "stream", stream)
    client = Client([Server("127.0.0.1", 1)], Journal())
    key = (ID, "key-1")
    assert client.leave(key, Words(1, "Beat 1.")) == was_left
    assert (key in client.journal.kept) == is_kept


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
