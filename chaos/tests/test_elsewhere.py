"""Tests of a run over two web processes: when a reply counts as stopped or followed."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from chaos import client as client_module
from chaos import elsewhere
from chaos.client import Client
from chaos.elsewhere import follow_elsewhere, stop_elsewhere
from chaos.journal import Journal, Words
from testing.http_calls import Answer, Server, StreamEvent

ID, KEY = "chapter-1", "key-1"
ONE, OTHER = Server("127.0.0.1", 1), Server("127.0.0.1", 2)
TURN = {"prompt_index": 1, "events": [{"event_id": "e", "role": "agent", "text": "I & you climb."}]}
PENDING = {"attempt_id": "a", "submission_key": KEY, "user_text": "Go.", "status": "running"}


class Program:
    """Two web processes. A prompt waits for its end until it was stopped or followed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[int, str]] = []
        self.pending: dict[str, Any] = dict(PENDING)
        self.shown = ["I &amp; you", " climb."]
        self.ends = True
        self.answer: tuple[int, Any] = (201, TURN)
        self._is_over = threading.Event()
        monkeypatch.setattr(client_module, "call", self.call)
        monkeypatch.setattr(elsewhere, "stream", self.stream)

    def call(self, server: Server, _method: str, path: str, _body: Any, **_: Any) -> Answer:
        verb = path.rpartition("/")[2]
        self.asked.append((server.port, verb))
        if verb == "prompt":
            assert self._is_over.wait(30)
            return _answer(*self.answer)
        if verb == "stop":
            self._is_over.set()
        return _answer(200, {"pending_turn": self.pending})

    def stream(self, server: Server, path: str, **_: Any) -> Iterator[StreamEvent]:
        self.asked.append((server.port, path.rpartition("/")[2]))
        for text in self.shown:
            yield StreamEvent("text", text, 0)
        if self.ends:
            yield StreamEvent("ended", "<p>", 0)
        self._is_over.set()


def _answer(status: int, body: Any) -> Answer:
    return Answer(status, json.dumps(body).encode(), 0)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    return Program(monkeypatch)


def two_webs() -> Client:
    return Client([ONE, OTHER], Journal())


@pytest.mark.parametrize(("status", "is_met"), [(409, True), (201, False)])
def test_a_reply_is_stopped_on_the_other_process(
    program: Program, status: int, is_met: bool
) -> None:
    program.answer = (status, TURN if status == 201 else {"detail": "The reply was stopped."})
    told, was_met = stop_elsewhere(two_webs(), (ID, KEY), Words(1, ""))
    assert (told.status, was_met) == (status, is_met)
    [prompt] = [port for port, verb in program.asked if verb == "prompt"]
    [stop] = [port for port, verb in program.asked if verb == "stop"]
    assert {prompt, stop} == {1, 2}


@pytest.mark.parametrize(
    ("shown", "ends", "rules"),
    [
        (["I &amp; you", " climb."], True, set()),
        (["I &amp; you"], True, {"followers elsewhere see the reply"}),
        (["I &amp; you", " climb."], False, {"streams end with a word"}),
    ],
    ids=["whole", "other words", "no end"],
)
def test_a_reply_is_followed_on_the_other_process(
    program: Program, shown: list[str], ends: bool, rules: set[str]
) -> None:
    program.shown, program.ends = shown, ends
    client = two_webs()
    _told, was_met = follow_elsewhere(client, (ID, KEY), Words(1, ""))
    assert was_met == ends
    assert {one.rule for one in client.violations} == rules
    [prompt] = [port for port, verb in program.asked if verb == "prompt"]
    [followed] = [port for port, verb in program.asked if verb == "stream"]
    assert {prompt, followed} == {1, 2}
